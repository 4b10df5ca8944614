// The HTTP layer shared by all APIs: CORS, body limit, deadlines, request ids, probes, the log.
import { connect } from 'node:net';
import { Writable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createLog } from '../../src/log/log.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';

const FILE = `
version: 1
server:
  max_body_size: 10KB
  cors: { origins: ["https://app.example.com"] }
  timeouts: { request: 700ms, db_query: 20s, header: 1s }
tables:
  notes:
    fields: [{ name: id, type: bigserial, primary_key: true }, { name: body, type: text }]
    rls: [{ operations: [select, insert], using: "true", with_check: "true" }]
rpc:
  nap: { language: sql, returns: { type: text }, body: "select 'rested' from pg_sleep(5)" }
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
  world = await startBackendWorld(FILE, { log: createLog({ level: 'debug', destination }) });
});
afterAll(async () => {
  await world.close();
});

type Sent = Omit<RequestInit, 'headers'> & { headers?: Record<string, string>; duplex?: 'half' };

const send = (path: string, init: Sent = {}): Promise<Response> =>
  fetch(`${world.url}${path}`, {
    ...init,
    headers: { apikey: world.keys.publishable, 'content-type': 'application/json', ...init.headers },
  });

describe('CORS', () => {
  test('a listed origin is echoed with credentials, and the headers that clients read are exposed', async () => {
    const response = await send('/rest/v1/notes', { headers: { origin: 'https://app.example.com' } });
    expect(response.headers.get('access-control-allow-origin')).toBe('https://app.example.com');
    expect(response.headers.get('access-control-allow-credentials')).toBe('true');
    expect(response.headers.get('access-control-expose-headers')).toMatch(/Content-Range/);
    expect(response.headers.get('vary')).toMatch(/Origin/);
  });

  test('another origin gets no permission', async () => {
    const response = await send('/rest/v1/notes', { headers: { origin: 'https://evil.example' } });
    expect(response.headers.get('access-control-allow-origin')).toBeNull();
  });

  test.each(['/rest/v1/notes', '/auth/v1/token?grant_type=password', '/storage/v1/object/b/p', '/nowhere'])(
    'a preflight of %s is answered without a key',
    async (path) => {
      const response = await fetch(`${world.url}${path}`, {
        method: 'OPTIONS',
        headers: {
          origin: 'https://app.example.com',
          'access-control-request-method': 'POST',
          'access-control-request-headers': 'apikey,x-my-header',
        },
      });
      expect(response.status).toBe(200);
      expect(response.headers.get('access-control-allow-methods')).toMatch(/PATCH/);
      expect(response.headers.get('access-control-allow-headers')).toMatch(/x-my-header/);
      expect(response.headers.get('access-control-max-age')).toBe('86400');
    },
  );
});

describe('the body limit', () => {
  const large = JSON.stringify({ body: 'x'.repeat(20_000), email: 'a@example.com', password: 'x' });

  test.each([
    ['/rest/v1/notes', { code: 'SVC101' }],
    ['/auth/v1/signup', { error_code: 'request_entity_too_large' }],
  ])('%s answers 413 in its own dialect', async (path, body) => {
    const response = await send(path, { method: 'POST', body: large });
    expect(response.status).toBe(413);
    expect(await response.json()).toMatchObject(body);
  });

  test.each([
    ['/rest/v1/notes', 20_000],
    ['/auth/v1/signup', 5_000_000],
    ['/nowhere', 5_000_000],
  ])(
    '%s ends the connection after the answer to %i bytes, and the client reads all of it',
    async (path, size) => {
      const { host } = new URL(world.url);
      const head =
        `POST ${path} HTTP/1.1\r\nHost: ${host}\r\napikey: ${world.keys.publishable}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${size}\r\n\r\n`;
      const answer = await exchange(head + 'x'.repeat(size));
      expect(answer).toMatch(/^HTTP\/1\.1 (?:413|404) /);
      expect(answer).toMatch(/\r\nconnection: close\r\n/i);
      const [answerHead = '', body = ''] = answer.split('\r\n\r\n');
      expect(/content-length: (\d+)/i.exec(answerHead)?.[1]).toBe(String(Buffer.byteLength(body)));
    },
  );

  test('a refused request with a small remaining body keeps the connection', async () => {
    const response = await send('/nowhere', { method: 'POST', body: 'x'.repeat(1_000) });
    expect([response.status, response.headers.get('connection')]).toEqual([404, 'keep-alive']);
  });

  test('a body without content-length is measured while it is read', async () => {
    const stream = new ReadableStream({
      start(controller) {
        for (let n = 0; n < 20; n++) controller.enqueue(new TextEncoder().encode('x'.repeat(1_000)));
        controller.close();
      },
    });
    const response = await send('/rest/v1/notes', { method: 'POST', body: stream, duplex: 'half' });
    expect(response.status).toBe(413);
  });
});

test.each([
  ['/rest/v1/notes', { code: 'SVC106' }],
  ['/auth/v1/signup', { error_code: 'bad_json' }],
  ['/storage/v1/object/list/none', { statusCode: '415' }],
  ['/realtime/v1/api/broadcast', { error: expect.stringContaining('utf-16') }],
])('%s refuses JSON in another charset than UTF-8', async (path, body) => {
  const headers = { 'content-type': 'application/json; charset=utf-16' };
  const response = await send(path, { method: 'POST', headers, body: '{}' });
  expect([response.ok, await response.json()]).toEqual([false, expect.objectContaining(body)]);
});

test('the deadline of a request cancels it and its statement', async () => {
  const response = await send('/rest/v1/rpc/nap', { method: 'POST', body: '{}' });
  expect(response.status).toBe(504);
  expect(await response.json()).toMatchObject({ code: 'SVC102' });
  await expect.poll(() => world.backend.snapshot().version).toBeGreaterThan(0);
  // The statement was cancelled, not left to run: its connection is free again well before the nap is over.
  const again = await send('/rest/v1/notes');
  expect(again.status).toBe(200);
});

describe('request ids', () => {
  test('a safe id from the caller is kept, an unsafe one is replaced', async () => {
    expect(
      (await send('/live', { headers: { 'x-request-id': 'abc-123' } })).headers.get('x-request-id'),
    ).toBe('abc-123');
    const replaced = (await send('/live', { headers: { 'x-request-id': 'a b"c' } })).headers.get(
      'x-request-id',
    );
    expect(replaced).toMatch(/^[0-9a-f-]{36}$/);
  });
});

test('probes answer', async () => {
  for (const path of ['/live', '/health', '/ready'])
    expect((await fetch(world.url + path)).status, path).toBe(200);
});

test('unknown paths and broken URLs get JSON with a hint', async () => {
  const missing = await send('/rest/v2/notes');
  expect(missing.status).toBe(404);
  expect(await missing.json()).toMatchObject({
    code: 'not_found',
    hint: expect.stringMatching(/\/rest\/v1/),
  });
  const broken = await send('/%zz');
  expect(broken.status).toBe(400);
  expect(await broken.json()).toMatchObject({ code: 'bad_request' });
});

/** Returns the whole response to these bytes, on a separate connection. */
function exchange(bytes: string): Promise<string> {
  const { hostname, port } = new URL(world.url);
  return new Promise((resolve, reject) => {
    let answer = '';
    connect(Number(port), hostname)
      .on('data', (chunk: Buffer) => (answer += chunk.toString()))
      .on('error', reject)
      .on('close', () => resolve(answer))
      .write(bytes);
  });
}

test.each([
  '/rest/v1/notes?select=id',
  '/auth/v1/health',
  '/storage/v1/bucket',
  '/ready',
  '/functions/v1/none',
])('a request line with scheme and host is the same request: %s', async (path) => {
  const { host } = new URL(world.url);
  const head = `Host: ${host}\r\napikey: ${world.keys.publishable}\r\nConnection: close\r\n\r\n`;
  const [plain, absolute] = await Promise.all(
    [path, `http://proxy.example${path}`].map((target) => exchange(`GET ${target} HTTP/1.1\r\n${head}`)),
  );
  const statusLine = (answer: string | undefined): string | undefined => answer?.split('\r\n', 1)[0];
  expect(statusLine(absolute)).toBe(statusLine(plain));
  expect(absolute?.split('\r\n\r\n')[1]).toBe(plain?.split('\r\n\r\n')[1]);
});

test('CONNECT is answered with 405', async () => {
  const answer = await exchange('CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n');
  expect(answer).toMatch(/^HTTP\/1\.1 405 Method Not Allowed\r\n/);
  expect(answer).toContain('"code":"method_not_allowed"');
});

test.each([
  ['a URL that cannot be decoded', 'GET /rest/v1/%zz HTTP/1.1', 'bad_request'],
  [
    'a head that is too large',
    `GET /rest/v1/notes?id=eq.${'1'.repeat(70_000)} HTTP/1.1`,
    'headers_too_large',
  ],
  ['many headers', `GET /rest/v1/notes HTTP/1.1\r\nx: ${'1'.repeat(70_000)}`, 'headers_too_large'],
])('%s has one code', async (_name, head, code) => {
  const answer = await exchange(`${head}\r\nHost: x\r\nConnection: close\r\n\r\n`);
  expect(answer).toContain(`"code":"${code}"`);
});

test('the log has one line per request and no secrets', async () => {
  const { publishable, secret } = world.keys;
  await send(`/rest/v1/notes?apikey=${secret}&select=id`, { headers: { authorization: `Bearer ${secret}` } });
  await send('/auth/v1/signup', {
    method: 'POST',
    body: '{"email":"log@example.com","password":"hunter2-hunter2"}',
  });
  await expect.poll(() => lines).toContain('/auth/v1/signup');
  const url = '/rest/v1/notes?apikey=[redacted]&select=id';
  const read = lines.split('\n').filter((line) => line.includes(JSON.stringify(url)));
  expect(read).toHaveLength(1);
  expect(JSON.parse(read[0] ?? '')).toMatchObject({
    url,
    route: '/rest/v1/*',
    role: 'service_role',
    status: 200,
  });
  for (const one of [publishable, secret, 'hunter2-hunter2']) expect(lines).not.toContain(one);
});

describe.concurrent('requests that do not end', () => {
  /** Sends the head, then single bytes; resolves with the response once the server has closed the connection. */
  async function trickle(head: string, every = 100): Promise<string> {
    const { hostname, port } = new URL(world.url);
    const socket = connect(Number(port), hostname);
    let answer = '';
    socket.on('data', (bytes: Buffer) => (answer += bytes.toString()));
    socket.on('error', () => {});
    socket.write(head);
    const timer = setInterval(() => socket.write(' '), every);
    await new Promise((resolve) => socket.once('close', resolve));
    clearInterval(timer);
    return answer;
  }
  const head = (path: string): string =>
    `POST ${path} HTTP/1.1\r\nHost: x\r\napikey: ${world.keys.publishable}\r\n` +
    'Content-Type: application/json\r\nContent-Length: 100000\r\n';

  test('a body that trickles: 408 at the deadline, and the connection is closed', async () => {
    const answer = await trickle(
      `${head('/rest/v1/notes')}Content-Length: 9000\r\n\r\n{`.replace('Content-Length: 100000\r\n', ''),
    );
    expect(answer).toMatch(/^HTTP\/1\.1 408 /);
    expect(answer).toContain('"code":"SVC104"');
    expect(answer).toMatch(/\r\nconnection: close\r\n/i);
    // One response, and no second one for the rest.
    expect(answer.match(/HTTP\/1\.1 /g)).toHaveLength(1);
  });

  test('a body that never arrives ends the same way', async () => {
    const answer = await trickle(`${head('/rest/v1/notes').replace('100000', '9000')}\r\n`, 1_000_000);
    expect(answer).toMatch(/^HTTP\/1\.1 408 /);
  });

  test.each(['/nowhere', '/rest/v1/notes', '/auth/v1/nothing', '/storage/v1/nothing'])(
    'a body that trickles on after the answer of %s does not keep its connection',
    async (path) => {
      const answer = await trickle(`${head(path)}\r\n`);
      expect(answer).toMatch(/^HTTP\/1\.1 (?:40[0-9]|413) /);
      expect(answer.match(/HTTP\/1\.1 /g)).toHaveLength(1);
    },
  );

  test('a head that never ends is answered and closed', async () => {
    const answer = await trickle('GET /live HTTP/1.1\r\nHost: x\r\nX-Long: ', 200);
    expect(answer).toMatch(/^HTTP\/1\.1 408 /);
  });

  test('after an early answer and the end of the body the connection is reused', async ({ expect }) => {
    const { hostname, port } = new URL(world.url);
    const socket = connect(Number(port), hostname);
    let answers = '';
    socket.on('data', (bytes: Buffer) => (answers += bytes.toString()));
    socket.write(`POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n`);
    await expect.poll(() => answers).toMatch(/ 404 /);
    socket.write('1234GET /live HTTP/1.1\r\nHost: x\r\n\r\n');
    await expect.poll(() => answers).toMatch(/ 200 /);
    socket.destroy();
  });
});
