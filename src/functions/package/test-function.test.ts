// A handler under test meets what it would meet on the server.
import { expect, test } from 'vitest';
import { defineFunction, testFunction, type Handler } from './index.ts';

test('the request has the given values in the format of the server', async () => {
  const handler = defineFunction((req) => ({ body: { ...req, rawBody: req.rawBody.toString() } }));
  const answer = await testFunction(handler, {
    query: { tag: ['a b', 'c'], one: '1' },
    headers: { 'X-Kind': 'test' },
    body: { text: 'Buy milk' },
  });
  expect(answer.headers.get('content-type')).toBe('application/json');
  expect(await answer.json()).toEqual({
    method: 'POST',
    path: '/functions/v1/test',
    query: { tag: 'a b', one: '1' },
    queryAll: { tag: ['a b', 'c'], one: ['1'] },
    rawQuery: 'tag=a+b&tag=c&one=1',
    headers: { 'x-kind': 'test', 'content-type': 'application/json' },
    headersAll: { 'x-kind': ['test'], 'content-type': ['application/json'] },
    body: { text: 'Buy milk' },
    rawBody: '{"text":"Buy milk"}',
  });
});

test('the default is an anonymous GET', async () => {
  const handler: Handler = (req, ctx) => ({
    body: [req.method, req.body ?? null, ctx.claims, ctx.clientAddress, ctx.signal.aborted],
  });
  expect(await (await testFunction(handler)).json()).toEqual(['GET', null, null, '127.0.0.1', false]);
});

test('claims, variables, fake clients and log lines', async () => {
  const lines: unknown[] = [];
  type Client = { count: () => Promise<number> };
  const handler = defineFunction<'GREETING', Client>(async (_req, ctx) => {
    ctx.log.info('called');
    ctx.log.debug('not logged');
    return { body: [ctx.env.GREETING, ctx.claims?.sub, ctx.claims?.role, await ctx.client.count()] };
  });
  const answer = await testFunction(handler, {
    env: { GREETING: 'Hello' },
    claims: { sub: 'ada' },
    client: { count: () => Promise.resolve(3) },
    log: { info: (message) => lines.push(message) },
  });
  expect(await answer.json()).toEqual(['Hello', 'ada', 'authenticated', 3]);
  expect(lines).toEqual(['called']);
  await expect(testFunction(handler, { env: { GREETING: '' } })).rejects.toThrow('ctx.client');
});

test.each<[string, Handler, unknown[]]>([
  ['no body', () => ({ status: 204 }), [204, null, '']],
  [
    'a text',
    () => ({ body: 'as it is', headers: { 'content-type': 'text/plain' } }),
    [200, 'text/plain', 'as it is'],
  ],
  [
    'a stream',
    () => ({
      body: (async function* () {
        yield 'a';
        yield Buffer.from('b');
      })(),
    }),
    [200, 'application/octet-stream', 'ab'],
  ],
  ['a web response', () => Response.json([1], { status: 201 }), [201, 'application/json', '[1]']],
])('answers: %s', async (_what, handler, expected) => {
  const answer = await testFunction(handler);
  expect([answer.status, answer.headers.get('content-type'), await answer.text()]).toEqual(expected);
});

test('cookies stay apart', async () => {
  const answer = await testFunction(() => ({ headers: { 'set-cookie': ['a=1', 'b=2'] } }));
  expect(answer.headers.getSetCookie()).toEqual(['a=1', 'b=2']);
});

test('what the server would answer with 400 or 500 is thrown', async () => {
  const wrong = (() => ({ status: 99 })) satisfies Handler;
  await expect(testFunction(wrong)).rejects.toThrow('status is 99');
  await expect(
    testFunction(wrong, { body: '{', headers: { 'content-type': 'application/json' } }),
  ).rejects.toThrow('JSON');
  await expect(
    testFunction(() => {
      throw new Error('of the handler');
    }),
  ).rejects.toThrow('of the handler');
});
