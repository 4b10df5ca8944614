// The log line of a request.
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { collectLog, type LogLine } from '../support/collect-log.ts';

const FILE = `
version: 1
tables:
  notes:
    fields: [{ name: id, type: bigserial, primary_key: true }, { name: body, type: text }]
    rls: [{ operations: [select], using: "true" }]
rpc:
  trace:
    language: sql
    volatility: stable
    returns: { type: text }
    body: "select current_setting('request.headers', true)::json->>'traceparent'"
  refuse:
    language: plpgsql
    returns: { type: void }
    body: "begin raise exception 'no' using hint = repeat('long ', 1000); end"
`;

let world: BackendWorld;
const { log, lines } = collectLog();

beforeAll(async () => {
  world = await startBackendWorld(FILE, { log });
});
afterAll(async () => {
  await world.close();
});

async function lineAbout(requestId: string): Promise<LogLine> {
  const found = (): readonly LogLine[] => lines().filter((line) => line['requestId'] === requestId);
  await expect.poll(found).toHaveLength(1);
  return found()[0] as LogLine;
}

/** Sends the path unchanged, because `fetch` would encode it. */
async function requestLine(path: string, method = 'GET'): Promise<LogLine> {
  const { hostname, port } = new URL(world.url);
  const requestId = `line-${lines().length}-${path.replaceAll(/\W/g, '.')}`.slice(0, 64);
  const head = [
    `${method} ${path} HTTP/1.1`,
    `Host: ${hostname}`,
    `apikey: ${world.keys.publishable}`,
    `x-request-id: ${requestId}`,
    'content-length: 0',
    'connection: close',
  ];
  const socket = connect({ host: hostname, port: Number(port) }).resume();
  socket.write(`${head.join('\r\n')}\r\n\r\n`);
  return await lineAbout(requestId);
}

test.each([
  ['/nothing', 404, 'not_found', /APIs are under/],
  ['/rest/v1/nothing', 404, 'PGRST205', /./],
  ['/rest/v1/notes?select=nothing', 400, '42703', undefined],
  ['/auth/v1/nothing', 404, 'not_found', undefined],
  ['/storage/v1/object/nothing/a', 400, 'NoSuchBucket', undefined],
  ['/functions/v1/nothing', 404, 'function_not_found', /./],
  ['/%zz', 400, 'bad_request', /hexadecimal/],
  ['/rest/v1/%zz', 400, 'bad_request', /hexadecimal/],
])('%s is refused, and its line contains the reason', async (path, status, code, hint) => {
  const line = await requestLine(path);
  expect(line).toMatchObject({ msg: 'request', method: 'GET', url: path, status, code });
  if (hint) expect(line['hint']).toMatch(hint);
});

test('a successful request is logged without code and hint', async () => {
  const line = await requestLine('/rest/v1/notes');
  expect(line).toMatchObject({ status: 200 });
  expect(Object.keys(line)).not.toContain('code');
  expect(Object.keys(line)).not.toContain('hint');
});

test('the line contains route, role and database time, and no user', async () => {
  const line = await requestLine('/rest/v1/notes?select=id');
  expect(line).toMatchObject({ route: '/rest/v1/*', role: 'anon' });
  expect(line['dbMs']).toBeGreaterThan(0);
  expect(line['dbMs']).toBeLessThanOrEqual(Number(line['ms']));
  expect(Object.keys(line)).not.toContain('user');
  const untouched = await requestLine('/rest/v1/nothing');
  for (const key of ['role', 'dbMs']) expect(Object.keys(untouched)).not.toContain(key);
});

test('each line of a connection has the bytes of its response', async () => {
  const { hostname, port } = new URL(world.url);
  const socket = connect({ host: hostname, port: Number(port) });
  let received = 0;
  socket.on('data', (chunk) => (received += chunk.length));
  const ask = (id: string, path: string): boolean =>
    socket.write(
      `GET ${path} HTTP/1.1\r\nHost: ${hostname}\r\napikey: ${world.keys.publishable}\r\nx-request-id: ${id}\r\n\r\n`,
    );
  ask('bytes-1', '/rest/v1/');
  const { bytes: first } = await lineAbout('bytes-1');
  await expect.poll(() => received).toBe(first);
  ask('bytes-2', '/rest/v1/notes');
  const { bytes: second } = await lineAbout('bytes-2');
  await expect.poll(() => received).toBe(Number(first) + Number(second));
  expect(second).toBeLessThan(Number(first));
  socket.destroy();
});

describe('SVC_LOG_USERS', () => {
  test('names the user', async () => {
    const named = collectLog();
    const second = await startBackendWorld(FILE, { log: named.log, env: { SVC_LOG_USERS: 'on' } });
    try {
      const signedUp = await fetch(`${second.url}/auth/v1/signup`, {
        method: 'POST',
        headers: { apikey: second.keys.publishable, 'content-type': 'application/json' },
        body: JSON.stringify({ email: 'ann@example.com', password: 'correct horse battery' }),
      });
      const { access_token: token, user } = (await signedUp.json()) as {
        access_token: string;
        user: { id: string };
      };
      const headers = { apikey: second.keys.publishable, authorization: `Bearer ${token}` };
      await (await fetch(`${second.url}/rest/v1/notes`, { headers })).text();
      const ofNotes = (): readonly LogLine[] => named.lines().filter(({ url }) => url === '/rest/v1/notes');
      await expect.poll(ofNotes).toMatchObject([{ role: 'authenticated', user: user.id }]);
    } finally {
      await second.close();
    }
  });

  test('an invalid value is refused', async () => {
    await expect(startBackendWorld(FILE, { env: { SVC_LOG_USERS: 'yes' } })).rejects.toThrow(
      'SVC_LOG_USERS is "yes"',
    );
  });
});

test('a hint of the database does not fill the log', async () => {
  const line = await requestLine('/rest/v1/rpc/refuse', 'POST');
  expect(line).toMatchObject({ code: 'P0001' });
  expect(String(line['hint'])).toMatch(/^long long/);
  expect(String(line['hint']).length).toBeLessThan(400);
});

test('the trace that a client names is in the line and in the database; an invalid one is in neither', async () => {
  const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
  const valid = `00-${trace}-00f067aa0ba902b7-01`;
  const ask = async (requestId: string, traceparent: string): Promise<unknown> => {
    const response = await fetch(`${world.url}/rest/v1/rpc/trace`, {
      headers: { apikey: world.keys.publishable, 'x-request-id': requestId, traceparent },
    });
    return await response.json();
  };
  expect(await ask('traced', valid)).toBe(valid);
  expect(await lineAbout('traced')).toMatchObject({ traceId: trace });
  expect(await ask('untraced', valid.toUpperCase())).toBeNull();
  expect(Object.keys(await lineAbout('untraced'))).not.toContain('traceId');
});

describe('SVC_LOG_SAMPLE', () => {
  test.each([
    ['0', 0, 0],
    ['0.5', 20, 80],
  ])('%s keeps every refusal and that share of the others', async (share, least, most) => {
    const sampled = collectLog();
    const second = await startBackendWorld(FILE, { log: sampled.log, env: { SVC_LOG_SAMPLE: share } });
    try {
      const headers = { apikey: second.keys.publishable };
      for (let n = 0; n < 100; n++) await (await fetch(`${second.url}/rest/v1/notes`, { headers })).text();
      await fetch(`${second.url}/nothing`);
      const ofRequests = (): readonly LogLine[] => sampled.lines().filter(({ msg }) => msg === 'request');
      await expect.poll(() => ofRequests().at(-1)).toMatchObject({ status: 404 });
      const kept = ofRequests().filter(({ status }) => status === 200).length;
      expect(kept).toBeGreaterThanOrEqual(least);
      expect(kept).toBeLessThanOrEqual(most);
    } finally {
      await second.close();
    }
  });

  test('an invalid share is refused', async () => {
    await expect(startBackendWorld(FILE, { env: { SVC_LOG_SAMPLE: '1%' } })).rejects.toThrow(
      'SVC_LOG_SAMPLE is "1%"',
    );
  });
});
