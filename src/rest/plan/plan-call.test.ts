// Tests which parameters of a call are arguments, and the errors for arguments that do not fit.
import { describe, expect, test } from 'vitest';
import { LIBRARY } from '../../../test/support/library-api.ts';
import { readPayload } from '../request/body.ts';
import { parseQuery } from '../request/parse-query.ts';
import { planCallByGet, planCallByPost, planSingleObject } from './plan-call.ts';

describe('by GET', () => {
  test.each([
    ['add?a=1&b=2', ['a', 'b'], 0],
    ['add?a=1', ['a'], 0],
    ['cheap_books?most=5', ['most'], 0],
    ['cheap_books?most=5&title=eq.x', ['most'], 1],
    ['cheap_books?most=5&or=(id.eq.1,id.eq.2)', ['most'], 1],
    // It could be read as a filter, but the result has no such column.
    ['store?doc=eq.1', ['doc'], 0],
  ])('%s: arguments %j, filters %i', (url, names, filters) => {
    const [name = '', text = ''] = url.split('?');
    const { query, values } = parseQuery(text, 'routine-by-get');
    const planned = planCallByGet(LIBRARY, 'public', name, query, values);
    expect(planned.call.arguments.map((argument) => argument.name)).toEqual(names);
    expect(planned.query.conditions).toHaveLength(filters);
  });

  test.each([
    ['ad?a=1', 404, 'Perhaps you meant to call the function public.add'],
    ['zebra', 404, 'Only functions declared under rpc: in svc.yaml can be called.'],
    ['add', 400, 'Perhaps you meant to call the function public.add(a, b)'],
    ['add?a=1&c=2', 400, 'Perhaps you meant to call the function public.add(a, b)'],
  ])('%s is refused with %i', (url, status, hint) => {
    const [name = '', text = ''] = url.split('?');
    const { query, values } = parseQuery(text, 'routine-by-get');
    expect(() => planCallByGet(LIBRARY, 'public', name, query, values)).toThrow(
      expect.objectContaining({ code: 'PGRST202', status, hint }),
    );
  });
});

describe('by POST', () => {
  test.each([
    ['add', '{"a":1,"b":2}', false],
    ['store', '{"doc":{"a":1}}', false],
    ['join_words', '{"words":["a"]}', true],
  ])('%s %s: PostgreSQL makes the arguments of the body: %s', (name, body, fromBody) => {
    const payload = readPayload(Buffer.from(body), 'json');
    expect(planCallByPost(LIBRARY, 'public', name, payload.keys, payload).fromBody).toBe(fromBody);
  });

  test('params=single-object passes the body to the only json parameter', () => {
    expect(planSingleObject(LIBRARY, 'public', 'store').arguments).toMatchObject([
      { name: 'doc', type: 'jsonb' },
    ]);
    expect(() => planSingleObject(LIBRARY, 'public', 'add')).toThrow(
      expect.objectContaining({ code: 'PGRST202', status: 400 }),
    );
  });
});
