// A web page that uses the secret key is logged once for each origin, whichever API it uses.
import { once } from 'node:events';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { collectLog } from '../support/collect-log.ts';

const { log, lines } = collectLog();
let world: BackendWorld;
beforeAll(async () => {
  world = await startBackendWorld(
    `version: 1
providers: { storage: { type: local } }
tables:
  notes: { rls: [], fields: [{ name: id, type: bigint, primary_key: true }] }
storage: { files: { rls: [] } }
`,
    { log },
  );
});
afterAll(async () => {
  await world.close();
});

const warnedOrigins = (): unknown[] =>
  lines().flatMap(({ msg, origin }) =>
    String(msg).startsWith('a web page uses the secret key') ? [origin] : [],
  );

const BROWSER = { 'user-agent': 'Mozilla/5.0', 'sec-fetch-site': 'cross-site' };

type Request = { readonly method?: string; readonly body?: unknown };
async function send(path: string, headers: Record<string, string>, { method = 'GET', body }: Request = {}) {
  const response = await fetch(`${world.url}${path}`, {
    method,
    headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  await response.arrayBuffer();
  return response.status;
}

test.each<[name: string, path: string, request?: Request]>([
  ['tables', '/rest/v1/notes'],
  ['the admin API of auth', '/auth/v1/admin/users'],
  ['user creation', '/auth/v1/admin/users', { method: 'POST', body: { email: 'a@example.com' } }],
  ['buckets', '/storage/v1/bucket'],
  ['lists of files', '/storage/v1/object/list/files', { method: 'POST', body: { prefix: '' } }],
  ['uploads', '/storage/v1/object/files/a.json', { method: 'POST', body: { a: 1 } }],
  ['broadcasts', '/realtime/v1/api/broadcast', { method: 'POST', body: { messages: [] } }],
])('%s', async (name, path, request) => {
  const origin = `https://${name.replaceAll(' ', '-')}.example`;
  const before = warnedOrigins();
  for (const key of [
    { apikey: world.keys.secret },
    { authorization: `Bearer ${world.keys.secret}`, apikey: world.keys.secret },
  ])
    expect(await send(path, { ...BROWSER, ...key, origin }, request)).toBeLessThan(500);
  await expect.poll(warnedOrigins).toEqual([...before, origin]);
});

test('sockets', async () => {
  const origin = 'https://sockets.example';
  const before = warnedOrigins();
  for (let n = 0; n < 2; n++) {
    const url = `${world.url.replace('http', 'ws')}/realtime/v1/websocket?vsn=1.0.0&apikey=${world.keys.secret}`;
    const socket = new WebSocket(url, { origin, headers: { 'user-agent': 'Mozilla/5.0' } });
    await once(socket, 'open');
    socket.terminate();
  }
  expect(warnedOrigins()).toEqual([...before, origin]);
});

test('neither the publishable key nor a server is logged', async () => {
  const before = warnedOrigins();
  const origin = 'https://fine.example';
  await send('/rest/v1/notes', { ...BROWSER, origin, apikey: world.keys.publishable });
  await send('/rest/v1/notes', { origin, apikey: world.keys.secret, 'user-agent': 'node' });
  await send('/storage/v1/bucket', { apikey: world.keys.secret });
  expect(warnedOrigins()).toEqual(before);
});
