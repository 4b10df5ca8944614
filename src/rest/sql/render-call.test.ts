// Calls of functions and the SQL they become.
import { expect, test } from 'vitest';
import { LIBRARY } from '../../../test/support/library-api.ts';
import { argumentTexts, originOfCall, planCallByGet, planCallByPost } from '../plan/plan-call.ts';
import { planRead } from '../plan/plan-read.ts';
import { EMPTY_OBJECT, readPayload } from '../request/body.ts';
import { parseQuery } from '../request/parse-query.ts';
import { BODY, FIELD } from '../request/query.ts';
import { renderCall } from './render-call.ts';

const CALLS: ReadonlyArray<
  readonly [what: string, url: string, body: string | undefined, sql: string, values: readonly string[]]
> = [
  [
    'by GET: each argument is a separate parameter',
    'add?a=1&b=2',
    undefined,
    `SELECT coalesce(to_json("value_1")::text, 'null'), 1 FROM (SELECT "public"."add"("a" := $1::integer, ` +
      '"b" := $2::integer) AS "value_1" OFFSET 0) AS "call_1"',
    ['1', '2'],
  ],
  [
    'by POST: so are the fields of the body',
    'add',
    '{"a":1}',
    `SELECT coalesce(to_json("value_1")::text, 'null'), ` +
      '1 FROM (SELECT "public"."add"("a" := $1::integer) AS "value_1" OFFSET 0) AS "call_1"',
    ['1'],
  ],
  [
    'a function without a result',
    'store',
    '{"doc":{"a":1}}',
    `SELECT coalesce(to_json("value_1")::text, 'null'), ` +
      '1 FROM (SELECT "public"."store"("doc" := $1::jsonb) AS "value_1" OFFSET 0) AS "call_1"',
    ['{"a":1}'],
  ],
  [
    'variadic by GET: the parameter once for each element',
    'join_words?words=a&words=b',
    undefined,
    `SELECT coalesce(to_json("value_1")::text, 'null'), ` +
      '1 FROM (SELECT "public"."join_words"(VARIADIC "words" := ARRAY[$1, ' +
      '$2]::text[]) AS "value_1" OFFSET 0) AS "call_1"',
    ['a', 'b'],
  ],
  [
    'an array in the body is read by PostgreSQL',
    'join_words',
    '{"words":["a"]}',
    `SELECT coalesce(to_json("value_1")::text, 'null'), ` +
      '1 FROM (SELECT "public"."join_words"(VARIADIC "words" := "args_1"."words") AS "value_1" ' +
      'FROM json_to_record($1::json) AS "args_1"("words" text[]) OFFSET 0) AS "call_1"',
    ['{"words":["a"]}'],
  ],
  [
    'a set of rows is read like a table',
    'cheap_books?most=5&title=like.a*&select=id&order=id',
    undefined,
    `SELECT coalesce(json_agg("row_1"), '[]'), ` +
      'count(*) FROM (SELECT "cheap_books"."id" AS "id" ' +
      'FROM "public"."cheap_books"("most" := $1::numeric) AS "cheap_books" ' +
      'WHERE "cheap_books"."title" LIKE $2 ORDER BY "cheap_books"."id") AS "row_1"',
    ['5', 'a%'],
  ],
  [
    'a set of columns',
    'counts?select=label',
    undefined,
    `SELECT coalesce(json_agg("row_1"), '[]'), ` +
      'count(*) FROM (SELECT "counts"."label" AS "label" FROM "public"."counts"() AS "counts") AS "row_1"',
    [],
  ],
];

test.each(CALLS)('%s: %s %s', (_what, url, body, sql, expected) => {
  const [name = '', text = ''] = url.split('?');
  const { query, values } = parseQuery(text, body === undefined ? 'routine-by-get' : 'routine-by-post');
  const payload = body === undefined ? EMPTY_OBJECT : readPayload(Buffer.from(body), 'json');
  const plan =
    body === undefined
      ? planCallByGet(LIBRARY, 'public', name, query, values)
      : { call: planCallByPost(LIBRARY, 'public', name, payload.keys, payload), query };
  const { call } = plan;
  const { node } = planRead(LIBRARY, originOfCall(LIBRARY, call.routine), plan.query);
  const statement = renderCall(call, node, {
    media: { kind: 'json' },
    withBody: true,
    withResponseSettings: false,
    guards: [],
  });
  expect(statement.text).toBe(sql);
  const fields = call.fromBody ? [] : argumentTexts(call, payload);
  const readValue = (slot: number): string | null | undefined => {
    if (slot === BODY) return payload.bytes.toString('utf8');
    return slot >= 0 ? values[slot] : fields[FIELD - slot];
  };
  expect(statement.slots.map(readValue)).toEqual(expected);
});
