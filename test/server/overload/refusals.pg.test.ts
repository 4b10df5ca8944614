// Every refusal has the format of the requested API, CORS headers and a request id, even if no route is reached. No
// connection gets more than one response to a request.
import { Writable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createLog } from '../../../src/log/log.ts';
import { startBackendWorld, type BackendWorld } from '../../support/backend-world.ts';
import { parseAnswers, sendRaw, type RawAnswer } from '../../support/network/raw-http.ts';
import { scaled } from '../../support/run/scaled.ts';

const ORIGIN = 'https://app.example.com';
const FILE = `
version: 1
server:
  max_body_size: 10KB
  cors: { origins: ["${ORIGIN}"] }
  timeouts: { request: 4s, header: 400ms, body_idle: 600ms }
tables:
  notes:
    fields: [{ name: id, type: bigserial, primary_key: true }, { name: body, type: text }]
    rls: [{ operations: [select, insert], using: "true", with_check: "true" }]
storage:
  drop: { rls: [{ operations: [insert], with_check: "true" }] }
functions:
  echo: { runtime: node, file: functions/echo.js }
`;

let world: BackendWorld;
let lines = '';
beforeAll(async () => {
  const destination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines += chunk.toString();
      done();
    },
  });
  world = await startBackendWorld(FILE, {
    log: createLog({ level: 'info', destination }),
    files: {
      'functions/package.json': '{"type":"module"}',
      'functions/echo.js': 'export default async () => ({ body: {} });',
    },
  });
});
afterAll(() => world.close());

/** Keyed by API: a path that reads a body, and the keys of its errors. */
const APIS = {
  rest: ['/rest/v1/notes', ['code', 'details', 'hint', 'message']],
  auth: ['/auth/v1/signup', ['code', 'error_code', 'msg']],
  storage: ['/storage/v1/object/drop/a', ['code', 'error', 'message', 'statusCode']],
  functions: ['/functions/v1/echo', ['code', 'message']],
  none: ['/nothing', ['code', 'details', 'hint', 'message']],
} as const;
type Api = keyof typeof APIS;
const PREFIX = (api: Api): string => APIS[api][0].split('/').slice(0, 3).join('/');

const head = (line: string, more: readonly string[] = []): string =>
  `${[line, 'Host: x', `Origin: ${ORIGIN}`, `apikey: ${world.keys.publishable}`, ...more].join('\r\n')}\r\n`;

/** Returns the only response to the sent bytes. */
async function answerTo(bytes: string): Promise<RawAnswer> {
  const raw = sendRaw(world.url, bytes);
  await expect.poll(() => raw.received()).toMatch(/\r\n\r\n.*\}/s);
  raw.socket.end();
  const answers = parseAnswers((await raw.closed).text);
  expect(answers, JSON.stringify(answers)).toHaveLength(1);
  return answers[0] ?? { status: 0, headers: {}, body: '' };
}

/** Keyed by name: the bytes sent to the path of an API, the status, and the APIs whose format it has. */
type Refusal = readonly [
  name: string,
  send: (path: string, api: Api) => string,
  status: number | Partial<Record<Api, number>>,
  apis: readonly Api[],
];
const ALL: readonly Api[] = ['rest', 'auth', 'storage', 'functions', 'none'];
const WITH_BODY: readonly Api[] = ['rest', 'auth', 'storage', 'functions'];
const REFUSALS: readonly Refusal[] = [
  ['invalid HTTP', (path) => `${head(`GET ${path} HTTP/1.1`)}no header\r\n\r\n`, 400, ALL],
  ['an unknown method', (path) => `${head(`BREW ${path} HTTP/1.1`)}\r\n`, 400, ALL],
  [
    'a head that is too large',
    (path) => `${head(`GET ${path} HTTP/1.1`, [`X: ${'x'.repeat(70_000)}`])}\r\n`,
    431,
    ALL,
  ],
  [
    'a URL that cannot be decoded',
    (_path, api) => `${head(`GET ${PREFIX(api)}/%zz HTTP/1.1`)}\r\n`,
    400,
    ALL,
  ],
  [
    'a body that is not chunked',
    (path) =>
      `${head(`POST ${path} HTTP/1.1`, ['Transfer-Encoding: chunked', 'Content-Type: application/json'])}\r\nzz\r\n`,
    400,
    WITH_BODY,
  ],
  [
    'a body that stops coming',
    (path) =>
      `${head(`POST ${path} HTTP/1.1`, ['Content-Length: 100', 'Content-Type: application/json'])}\r\n{`,
    408,
    WITH_BODY,
  ],
  [
    'a body that is too large',
    (path) =>
      `${head(`POST ${path} HTTP/1.1`, ['Content-Length: 100000', 'Content-Type: application/json'])}\r\n`,
    413,
    ['rest', 'auth', 'functions'],
  ],
  [
    'a Content-Type that is none',
    (path) => `${head(`POST ${path} HTTP/1.1`, ['Content-Length: 2', 'Content-Type: nonsense;;'])}\r\n{}`,
    { rest: 400, auth: 415, storage: 400 },
    ['rest', 'auth', 'storage'],
  ],
  [
    'a method that no route has',
    (path) => `${head(`PROPFIND ${path} HTTP/1.1`)}\r\n`,
    { rest: 405, auth: 405, storage: 404, none: 404 },
    ['rest', 'auth', 'storage', 'none'],
  ],
];

describe.each(REFUSALS)('%s', (_name, send, status, apis) => {
  test.each(apis)('%s', async (api) => {
    const [path, keys] = APIS[api];
    const answer = await answerTo(send(path, api));
    expect(answer.status, answer.body).toBe(typeof status === 'number' ? status : status[api]);
    expect(answer.headers['content-type']).toMatch(/^application\/json/);
    // Only the last packet of a large head is known.
    expect(answer.headers['access-control-allow-origin']).toBe(status === 431 ? '*' : ORIGIN);
    const id = answer.headers['x-request-id'] ?? '';
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    const format = status === 431 ? APIS.none[1] : keys;
    expect(Object.keys(JSON.parse(answer.body) as object)).toEqual(expect.arrayContaining([...format]));
    if (api === 'rest' && status !== 431)
      expect(answer.body).toMatch(/"code":"(?:(?:PGRST|SVC)\d+|bad_request)"/);
    await expect.poll(() => lines).toContain(id);
  });
});

test('a head that does not end gets one response after its deadline', async () => {
  const { text } = await sendRaw(world.url, 'GET /rest/v1/notes HTTP/1.1\r\nHost: x\r\nX-Slow: ').closed;
  const answers = parseAnswers(text);
  expect(answers.map(({ status }) => status)).toEqual([408]);
  expect(answers[0]?.headers).toMatchObject({ 'access-control-allow-origin': '*', connection: 'close' });
});

test('invalid bytes after an early answer end the connection without a second one', async () => {
  const raw = sendRaw(world.url, `${head('POST /nothing HTTP/1.1', ['Transfer-Encoding: chunked'])}\r\n`);
  await expect.poll(() => raw.received()).toMatch(/^HTTP\/1\.1 404 /);
  raw.socket.write('zz\r\n');
  const { text } = await raw.closed;
  expect(parseAnswers(text)).toHaveLength(1);
});

test.each(['/nothing', '/auth/v1/nothing', '/storage/v1/object/unknown/a'])(
  'a body that does not come after the early answer of %s keeps its connection for no more than two seconds',
  async (path) => {
    const raw = sendRaw(world.url, `${head(`POST ${path} HTTP/1.1`, ['Content-Length: 9000'])}\r\n`);
    const trickle = setInterval(() => raw.socket.write('x'), 100);
    const { text, ms } = await raw.closed;
    clearInterval(trickle);
    expect(parseAnswers(text)).toHaveLength(1);
    // The documented limit is two seconds; the rest is a margin.
    expect(ms).toBeLessThan(scaled(4_000));
  },
);
