// The request object, the context object and the rules for responses, as documented.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startWorld, until, type World } from './world.ts';

let world: World;

const ECHO = `
export default async function (req, ctx) {
  return { body: { ...req, rawBody: req.rawBody.toString('base64'), isBuffer: Buffer.isBuffer(req.rawBody),
    bodyType: typeof req.body, claims: ctx.claims, env: ctx.env } };
}`;

const ANSWERS = `
import { Readable } from 'node:stream';
const cases = {
  empty: () => ({}),
  status: () => ({ status: 201, body: { made: true } }),
  text: () => ({ body: 'just text' }),
  typed: () => ({ headers: { 'Content-Type': 'text/plain' }, body: 'typed text' }),
  bytes: () => ({ headers: { 'content-type': 'image/png' }, body: Buffer.from([0, 255, 1, 254]) }),
  untypedBytes: () => ({ body: Buffer.from([1, 2, 3]) }),
  list: () => ({ body: [1, 2] }),
  number: () => ({ body: 7 }),
  null: () => ({ body: null }),
  noContent: () => ({ status: 204, body: { ignored: true } }),
  cookies: () => ({ headers: { 'set-cookie': ['a=1', 'b=2'], 'x-many': ['1', '2'] } }),
  pairs: () => ({ headers: [['x-a', '1'], ['x-b', '2'], ['x-a', '3']] }),
  webHeaders: () => ({ headers: new Headers({ 'x-web': 'yes' }), body: {} }),
  response: () => Response.json({ web: true }, { status: 202, headers: { 'x-kind': 'response' } }),
  responseText: () => new Response('plain'),
  responseEmpty: () => new Response(null, { status: 204 }),
  redirect: () => Response.redirect('http://elsewhere.example/x', 303),
  stream: () => ({ headers: { 'content-type': 'text/plain' }, body: Readable.from(['one ', 'two ', 'three']) }),
  generator: () => ({
    headers: { 'content-type': 'text/plain' },
    body: (async function* () { yield 'a'; await new Promise(setImmediate); yield new Uint8Array([98]); })(),
  }),
  blob: () => ({ body: new Blob(['blob'], { type: 'text/x-blob' }) }),
  big: () => ({ headers: { 'content-type': 'application/octet-stream' }, body: Buffer.alloc(8 * 1024 * 1024, 'x') }),
  nothing: () => undefined,
  string: () => 'text',
  badStatus: () => ({ status: 99 }),
  badHeader: () => ({ headers: { 'x-split': 'a\\r\\nset-cookie: evil=1' } }),
  badName: () => ({ headers: { 'bad name': '1' } }),
  cycle: () => { const a = {}; a.a = a; return { body: a }; },
  fn: () => ({ body: () => 1 }),
  throws: () => { throw new Error('secret detail'); },
  throwsString: () => { throw 'just a string'; },
  rejects: async () => { await null; throw new TypeError('later'); },
  lateThrow: () => new Promise(() => setTimeout(() => { throw new Error('in a timer'); }, 1)),
  length: () => ({ headers: { 'content-length': '1' }, body: 'longer' }),
};
export default async (req, ctx) => cases[req.query.case](req, ctx);`;

beforeAll(async () => {
  world = await startWorld({
    files: {
      'functions/echo.js': ECHO,
      'functions/answers.js': ANSWERS,
      'functions/guarded.js': 'export default async (req, ctx) => ({ body: { claims: ctx.claims } });',
      'functions/typed.ts':
        'type Row = { readonly id: number };\n' +
        'export default async (req: { method: string }) => { const row: Row = { id: 1 }; ' +
        'return { body: row }; };',
      'functions/logs.js': `
        export default async (req, ctx) => {
          console.log('logged %s', 'this', { a: 1 });
          console.error(new Error('shown'));
          console.warn('careful'); console.debug('detail'); console.table([{ a: 1 }]);
          ctx.log.info('structured', { user: 7, big: 10n });
          ctx.log.error('bad', { cause: new Error('why') });
          const { warn } = ctx.log; warn('taken apart');
          console.log('the key is ' + ctx.env.KEY + ' and ' + req.headers.authorization);
          return {};
        };`,
      'functions/own.ts':
        "import { defineFunction, testFunction } from 'svcyaml';\n" +
        "const inner = defineFunction(() => ({ body: 'inner' }));\n" +
        'export default defineFunction(async () => ' +
        '({ body: [await (await testFunction(inner)).text()] }));',
      'functions/broken.js': 'export default async () => { syntax error',
      'functions/nodefault.js': 'export const handler = 1;',
    },
    yaml: `
  echo: { runtime: node, file: functions/echo.js, env: { LITERAL: plain text, NUMBER: 5 } }
  answers: { runtime: node, file: functions/answers.js }
  guarded: { runtime: node, file: functions/guarded.js, auth_required: true }
  typed: { runtime: node, file: functions/typed.ts }
  logs: { runtime: node, file: functions/logs.js, env: { KEY: "\${SVC_ENV_KEY}" } }
  own: { runtime: node, file: functions/own.ts }
  broken: { runtime: node, file: functions/broken.js }
  nodefault: { runtime: node, file: functions/nodefault.js }
`,
    variables: { SVC_ENV_KEY: 'canary-secret-value' },
  });
});
afterAll(() => world.close());

describe('the request', () => {
  test('path, query and headers are available in every documented form', async () => {
    const { json } = await world.call('echo/sub/p%20th?a=1&b=2&a=3&__proto__=x&empty', {
      headers: { 'X-Mixed-Case': 'v', 'x-two': ['1', '2'] },
    });
    expect(json).toMatchObject({
      method: 'GET',
      path: '/functions/v1/echo/sub/p%20th',
      rawQuery: 'a=1&b=2&a=3&__proto__=x&empty',
      query: { a: '1', b: '2', empty: '' },
      queryAll: { a: ['1', '3'], b: ['2'] },
      isBuffer: true,
    });
    expect(Object.getOwnPropertyDescriptor(json.query, '__proto__')?.value).toBe('x');
    expect(json.headers['x-mixed-case']).toBe('v');
    expect(json.headers['x-two']).toBe('1');
    expect(json.headersAll['x-two']).toEqual(['1', '2']);
  });

  test('rawQuery is empty when there is none', async () => {
    expect((await world.call('echo')).json.rawQuery).toBe('');
    expect((await world.call('echo?')).json.rawQuery).toBe('');
  });

  test.each([
    ['application/json', '{"a":[1]}', 'object', { a: [1] }],
    ['application/json; charset=utf-8', '"x"', 'string', 'x'],
    ['Application/JSON', '1', 'number', 1],
    ['text/plain', '{"a":1}', 'string', '{"a":1}'],
    ['application/x-www-form-urlencoded', 'a=1', 'string', 'a=1'],
    ['application/jsonish', '{}', 'string', '{}'],
    ['utter nonsense', 'x', 'string', 'x'],
    [undefined, 'bare', 'string', 'bare'],
  ])('a body of type %s is parsed as documented', async (type, body, bodyType, value) => {
    const headers = type === undefined ? {} : { 'content-type': type };
    const { json } = await world.call('echo', { body, headers });
    expect(json.bodyType).toBe(bodyType);
    expect(json.body).toEqual(value);
    expect(Buffer.from(json.rawBody, 'base64').toString()).toBe(body);
  });

  test('an empty body is undefined, with an empty Buffer', async () => {
    for (const body of [undefined, '']) {
      const { json } = await world.call('echo', {
        method: 'POST',
        body,
        headers: { 'content-type': 'application/json' },
      });
      expect(json.bodyType).toBe('undefined');
      expect(json.rawBody).toBe('');
      expect(json.isBuffer).toBe(true);
    }
  });

  test('rawBody is the exact bytes', async () => {
    const bytes = Buffer.from([...Array(256).keys()]);
    const { json } = await world.call('echo', { body: bytes });
    expect(Buffer.from(json.rawBody, 'base64').equals(bytes)).toBe(true);
  });

  test('invalid JSON is answered with 400', async () => {
    const reply = await world.call('echo', { body: '{', headers: { 'content-type': 'application/json' } });
    expect(reply.status).toBe(400);
    expect(reply.json.code).toBe('invalid_json');
  });

  test('a body above the limit is refused with 413', async () => {
    const reply = await world.call('echo', { body: Buffer.alloc(1024 * 1024 + 1) });
    expect(reply.status).toBe(413);
    expect(reply.json.code).toBe('body_too_large');
  });

  test.each(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND', 'QUERY', 'TRACE', 'REPORT'])(
    'the method %s reaches the handler',
    async (method) => {
      const reply = await world.call('echo', { method });
      expect(reply.json.method).toBe(method);
    },
  );

  test('GET may carry a body', async () => {
    expect((await world.call('echo', { method: 'GET', body: 'with' })).json.body).toBe('with');
  });

  test('HEAD has the headers and no body', async () => {
    const reply = await world.call('answers?case=status', { method: 'HEAD' });
    expect(reply.status).toBe(201);
    expect(reply.bytes.length).toBe(0);
    const streamed = await world.call('answers?case=big', { method: 'HEAD' });
    expect(streamed.status).toBe(200);
    expect(streamed.bytes.length).toBe(0);
  });

  test('env has the declared values', async () => {
    expect((await world.call('echo')).json.env).toEqual({ LITERAL: 'plain text', NUMBER: '5' });
  });

  test('an unknown name is 404', async () => {
    const reply = await world.call('nope');
    expect(reply.status).toBe(404);
    expect(reply.json).toMatchObject({ code: 'function_not_found' });
    expect(reply.headers['x-relay-error']).toBeUndefined();
    expect((await world.call('')).status).toBe(404);
    expect((await world.call('__proto__')).status).toBe(404);
  });
});

test('a handler may import the package although it is not installed in its folder', async () => {
  expect((await world.call('own')).json).toEqual(['inner']);
});

describe('the answer', () => {
  const answer = (name: string) => world.call(`answers?case=${name}`);

  test('defaults to 200 and application/json', async () => {
    const reply = await answer('list');
    expect([reply.status, reply.headers['content-type'], reply.text]).toEqual([
      200,
      'application/json',
      '[1,2]',
    ]);
  });

  test('no body has no content type', async () => {
    const reply = await answer('empty');
    expect(reply.status).toBe(200);
    expect(reply.headers['content-type']).toBeUndefined();
    expect(reply.bytes.length).toBe(0);
  });

  test.each([
    ['status', 201, 'application/json', '{"made":true}'],
    ['text', 200, 'application/json', 'just text'],
    ['typed', 200, 'text/plain', 'typed text'],
    ['number', 200, 'application/json', '7'],
    ['null', 200, 'application/json', 'null'],
    ['noContent', 204, undefined, ''],
    ['webHeaders', 200, 'application/json', '{}'],
    ['response', 202, 'application/json', '{"web":true}'],
    ['responseText', 200, 'text/plain;charset=UTF-8', 'plain'],
    ['responseEmpty', 204, undefined, ''],
    ['stream', 200, 'text/plain', 'one two three'],
    ['generator', 200, 'text/plain', 'ab'],
    ['blob', 200, 'text/x-blob', 'blob'],
    ['length', 200, 'application/json', 'longer'],
  ])('%s', async (name, status, type, text) => {
    const reply = await answer(name);
    expect([reply.status, reply.headers['content-type'], reply.text]).toEqual([status, type, text]);
  });

  test('a Buffer is sent as it is', async () => {
    const reply = await answer('bytes');
    expect(reply.headers['content-type']).toBe('image/png');
    expect([...reply.bytes]).toEqual([0, 255, 1, 254]);
    expect((await answer('untypedBytes')).headers['content-type']).toBe('application/octet-stream');
  });

  test('large bodies arrive completely', async () => {
    const reply = await answer('big');
    expect(reply.bytes.length).toBe(8 * 1024 * 1024);
    expect(reply.headers['content-length']).toBe(String(8 * 1024 * 1024));
    expect(reply.bytes.every((byte) => byte === 120)).toBe(true);
  });

  test('lists of header values stay lists', async () => {
    const cookies = await answer('cookies');
    expect(cookies.headers['set-cookie']).toEqual(['a=1', 'b=2']);
    expect(cookies.rawHeaders.filter((item) => item.toLowerCase() === 'x-many').length).toBe(2);
    const pairs = await answer('pairs');
    expect(pairs.headers['x-a']).toBe('1, 3');
    expect(pairs.headers['x-b']).toBe('2');
    expect((await answer('response')).headers['x-kind']).toBe('response');
  });

  test('redirects pass through', async () => {
    const reply = await answer('redirect');
    expect([reply.status, reply.headers.location]).toEqual([303, 'http://elsewhere.example/x']);
  });

  test.each(['nothing', 'string', 'badStatus', 'badHeader', 'badName', 'cycle', 'fn'])(
    '%s is not a valid response: 500',
    async (name) => {
      const reply = await answer(name);
      expect([reply.status, reply.json.code]).toEqual([500, 'function_bad_response']);
      expect(reply.headers['set-cookie']).toBeUndefined();
    },
  );

  test.each(['throws', 'throwsString', 'rejects', 'lateThrow'])('%s: 500 without details', async (name) => {
    const reply = await answer(name);
    expect([reply.status, reply.json.code]).toEqual([500, 'function_error']);
    expect(reply.text).not.toContain('secret detail');
    expect(reply.headers['x-relay-error']).toBeUndefined();
  });

  test('the log has the error with its location', async () => {
    const reply = await world.call('answers?case=throws');
    const id = reply.headers['x-request-id'];
    const line = await until('the error is logged', () =>
      world.log.find((item) => item['requestId'] === id && item.msg === 'the function failed'),
    );
    expect(String(line['error'])).toContain('secret detail');
    expect(String(line['error'])).toMatch(/answers\.js:\d+:\d+/);
  });

  test('a file that does not parse or has no export is 500, and other functions still work', async () => {
    expect((await world.call('broken')).json.code).toBe('function_load_error');
    expect((await world.call('nodefault')).json.code).toBe('function_load_error');
    expect((await world.call('echo')).status).toBe(200);
  });

  test('TypeScript handlers work', async () => {
    expect((await world.call('typed')).json).toEqual({ id: 1 });
  });
});

describe('callers', () => {
  const claims = async (name: string, headers: Record<string, string>) => await world.call(name, { headers });

  test.each([
    ['no credentials', () => Promise.resolve({})],
    [
      'a publishable key as bearer',
      () => Promise.resolve({ authorization: `Bearer ${world.keys.publishable}` }),
    ],
    ['the secret key as bearer', () => Promise.resolve({ authorization: `Bearer ${world.keys.secret}` })],
    ['the secret key as apikey', () => Promise.resolve({ apikey: world.keys.secret })],
    ['a broken token', () => Promise.resolve({ authorization: 'Bearer a.b.c' })],
    ['a custom scheme of a webhook sender', () => Promise.resolve({ authorization: 'Basic abc' })],
    ['something else', () => Promise.resolve({ authorization: 'Bearer whsec_123' })],
    ['an expired token', async () => ({ authorization: `Bearer ${await world.token({ exp: 1000 })}` })],
    ['a wrong key', () => Promise.resolve({ authorization: 'Bearer svc_secret_wrongwrongwrongwrongwrong' })],
  ])('%s: anonymous if that is allowed, otherwise 401', async (_, headers) => {
    const sent: Record<string, string> = await headers();
    const open = await claims('echo', sent);
    expect(open.status).toBe(200);
    expect(open.json.claims).toBeNull();
    expect(open.json.headers.authorization).toBe(sent['authorization']);
    const closed = await claims('guarded', sent);
    expect(closed.status).toBe(401);
    expect(closed.json).toMatchObject({ code: 'unauthorized' });
    expect(closed.headers['x-relay-error']).toBeUndefined();
  });

  test('a user has sub, role, email if known, jwt, and nothing else', async () => {
    const token = await world.token({ email: 'a@example.com', custom: 'x', app_metadata: { a: 1 } });
    for (const name of ['echo', 'guarded']) {
      const { json } = await world.call(name, { token });
      expect(json.claims).toEqual({
        sub: '00000000-0000-4000-8000-000000000001',
        role: 'authenticated',
        email: 'a@example.com',
        jwt: token,
      });
    }
    const plain = await world.token();
    expect(Object.keys((await world.call('echo', { token: plain })).json.claims).sort()).toEqual([
      'jwt',
      'role',
      'sub',
    ]);
  });

  test('an anonymous sign-in has role anon and passes auth_required', async () => {
    const token = await world.token({ role: 'anon', is_anonymous: true });
    const { status, json } = await world.call('guarded', { token });
    expect([status, json.claims.role]).toEqual([200, 'anon']);
  });

  test('a token of role anon without a user is an anonymous caller', async () => {
    const token = await world.token({ role: 'anon', sub: undefined });
    expect((await world.call('echo', { token })).json.claims).toBeNull();
    expect((await world.call('guarded', { token })).status).toBe(401);
  });

  test('a service_role token passes auth_required', async () => {
    const token = await world.token({ role: 'service_role', sub: undefined });
    const { status, json } = await world.call('guarded', { token });
    expect([status, json.claims.role]).toEqual([200, 'service_role']);
  });
});

test('console output is structured log lines of the request, without secrets', async () => {
  const token = await world.token();
  const reply = await world.call('logs', { token });
  const id = reply.headers['x-request-id'];
  const mine = await until('all lines', () => {
    const found = world.log.filter(
      (line) => line['requestId'] === id && line['function'] === 'logs' && line.msg !== 'request',
    );
    return found.length >= 9 ? found : undefined;
  });
  const of = (level: string) => mine.filter((line) => line.level === level).map((line) => line.msg);
  expect(of('info')[0]).toBe('logged this { a: 1 }');
  expect(of('error')[0]).toContain('Error: shown');
  expect(of('warn')).toEqual(['careful', 'taken apart']);
  expect(of('debug')).toEqual(['detail']);
  expect(mine.find((line) => line.msg.includes('│'))).toBeDefined();
  expect(mine.find((line) => line.msg === 'structured')?.['fields']).toEqual({ user: 7, big: '10' });
  expect(mine.find((line) => line.msg === 'bad')?.['fields']).toMatchObject({ cause: { message: 'why' } });
  expect(mine.at(-1)?.msg).toBe('the key is [redacted] and Bearer [redacted]');
  expect(world.logText()).not.toContain('canary-secret-value');
  expect(world.logText()).not.toContain(token);
});
