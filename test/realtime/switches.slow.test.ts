// Settings that disable realtime, and a server that stops while many clients are connected.
import { createClient } from '@supabase/supabase-js';
import pg from 'pg';
import { WebSocket } from 'ws';
import { afterEach, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import type { Config } from '../../src/config/config.ts';
import { freePort } from '../../src/lib/free-port.ts';
import { startBackend } from '../../src/server/backend.ts';
import { collectLog } from '../support/collect-log.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { RawSocket } from './raw-socket.ts';

const file = (realtime: string): string => `
version: 1
project: { name: switches }
tables: {}
realtime: { ${realtime} }
`;

let world: BackendWorld;
const sockets: RawSocket[] = [];

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.close();
  await world.close();
});

async function open(): Promise<RawSocket> {
  const socket = await RawSocket.open(world.url, world.keys.publishable);
  sockets.push(socket);
  return socket;
}

function parseConfig(text: string): Config {
  const loaded = loadConfig({ name: 'svc.yaml', directory: undefined, text }, { variables: {} });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.mistakes));
  return loaded.config;
}

/** The HTTP response in place of a socket. */
async function refusal(url = world.url): Promise<[number | undefined, unknown]> {
  const address = `${url.replace(/^http/, 'ws')}/realtime/v1/websocket?apikey=${world.keys.publishable}`;
  const ws = new WebSocket(address);
  ws.on('error', () => {});
  return await new Promise((resolve) => {
    ws.on('unexpected-response', (_request, response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk.toString()));
      response.on('end', () =>
        resolve([response.statusCode, (JSON.parse(text) as { error: unknown }).error]),
      );
    });
  });
}

const OFF = 'Realtime is switched off in svc.yaml';

test('if disabled, sockets and broadcasts are rejected with a reason, and nothing reads the log', async () => {
  world = await startBackendWorld(file('enabled: false'));
  expect(await refusal()).toEqual([403, OFF]);
  const posted = await fetch(`${world.url}/realtime/v1/api/broadcast`, {
    method: 'POST',
    headers: { apikey: world.keys.publishable, 'content-type': 'application/json' },
    body: '{"messages":[]}',
  });
  expect([posted.status, ((await posted.json()) as { error: unknown }).error]).toEqual([403, OFF]);
  expect(await (await fetch(`${world.url}/ready`)).json()).toMatchObject({ realtime: 'off' });
  const admin = new pg.Client({ connectionString: world.databaseUrl });
  await admin.connect();
  const { rowCount } = await admin.query(
    'select from pg_replication_slots where database = current_database()',
  );
  await admin.end();
  expect(rowCount).toBe(0);
});

test('if a new file disables it, open sockets are closed and new ones rejected', async () => {
  world = await startBackendWorld(file('enabled: true'));
  const socket = await open();
  await socket.join('open');
  await world.backend.reload(parseConfig(file('enabled: false')));
  await expect.poll(() => socket.closed?.code).toBe(1012);
  expect(await refusal()).toEqual([403, OFF]);
});

test('with private channels only, a public one is rejected with a reason', async () => {
  world = await startBackendWorld(
    file('private_only: true, rls: [{ operations: [select, insert], to: authenticated, check: "true" }]'),
  );
  const socket = await open();
  const refused = await socket.reply(socket.push('realtime:open', 'phx_join', { config: {} }));
  expect(refused.response['reason']).toBe('PrivateOnly: This project only allows private channels');
  const token = await world.token({ role: 'authenticated', sub: '00000000-0000-4000-8000-00000000000a' });
  await socket.join('open', { private: true }, token);
});

test('a server that stops notifies its clients, and closes the sockets one by one within its time', async () => {
  world = await startBackendWorld(
    `${file('limits: { joins: 1000 }')}server: { timeouts: { shutdown: 4s } }\n`,
  );
  const all: RawSocket[] = [];
  for (let at = 0; at < 300; at++) all.push(await open());
  await Promise.all(all.map(async (socket) => await socket.join('crowd')));
  const closedAt: number[] = [];
  for (const { ws } of all) ws.on('close', () => closedAt.push(performance.now()));
  const stopped = world.backend.stop();
  world.backend.skipDrainDelay();
  await stopped;
  await expect.poll(() => closedAt.length).toBe(300);
  expect(new Set(all.map(({ closed }) => closed?.code))).toEqual(new Set([1012]));
  for (const socket of all) {
    expect(socket.of('system').at(-1)?.payload).toMatchObject({ message: 'Server requested disconnect' });
  }
  // Not all at once, because they reconnect to other instances.
  expect((closedAt.at(-1) ?? 0) - (closedAt[0] ?? 0)).toBeGreaterThan(500);
});

test('a server that starts rejects sockets with `starting`, admits them when it serves, and logs no key', async () => {
  const { log, lines } = collectLog();
  world = await startBackendWorld(file('enabled: true'));
  const migrated = Promise.withResolvers<void>();
  const port = await freePort();
  const starting = startBackend({ ...world.options, log, port, migrate: async () => await migrated.promise });
  const url = `http://127.0.0.1:${port}`;
  const statuses: string[] = [];
  const client = createClient(url, world.keys.publishable);
  try {
    const isThere = async (): Promise<boolean> =>
      await fetch(`${url}/live`).then(
        ({ ok }) => ok,
        () => false,
      );
    await expect.poll(isThere).toBe(true);
    expect(await refusal(url)).toEqual([503, 'The service is starting']);
    client.channel('early').subscribe((status) => statuses.push(status));
    await expect.poll(() => statuses).toContain('CHANNEL_ERROR');
    migrated.resolve();
    await expect.poll(() => statuses.at(-1)).toBe('SUBSCRIBED');
  } finally {
    migrated.resolve();
    await client.realtime.disconnect();
    await (await starting).stop();
  }
  const said = JSON.stringify(lines());
  expect(said).toContain('socket refused');
  expect(said).not.toContain(world.keys.publishable);
});

test('after a restart, clients of the library join again automatically and receive messages', async () => {
  world = await startBackendWorld(file('enabled: true'));
  const port = await freePort();
  let backend = await startBackend({ ...world.options, port });
  const client = createClient(backend.url, world.keys.publishable);
  const statuses: string[] = [];
  const heard: unknown[] = [];
  try {
    client
      .channel('stays')
      .on('broadcast', { event: 'word' }, ({ payload }) => heard.push(payload))
      .subscribe((status: string) => statuses.push(status));
    await expect.poll(() => statuses).toEqual(['SUBSCRIBED']);
    const stopped = backend.stop();
    backend.skipDrainDelay();
    await stopped;
    await expect.poll(() => statuses.at(-1)).toBe('CHANNEL_ERROR');
    backend = await startBackend({ ...world.options, port });
    await expect.poll(() => statuses.at(-1)).toBe('SUBSCRIBED');
    await createClient(backend.url, world.keys.publishable).channel('stays').httpSend('word', { n: 1 });
    await expect.poll(() => heard).toEqual([{ n: 1 }]);
  } finally {
    await client.realtime.disconnect();
    const stopped = backend.stop();
    backend.skipDrainDelay();
    await stopped;
  }
});

test('a channel that waits for its rejection does not block other channels', async () => {
  world = await startBackendWorld(file('limits: { channels: 3 }'));
  const socket = await open();
  for (const name of ['one', 'two']) await socket.join(name);
  const refused = (n: number): string =>
    socket.push(`realtime:${n}${'x'.repeat(300)}`, 'phx_join', { config: {} });
  // Only the first rejections are immediate.
  for (const n of [1, 2, 3]) await socket.reply(refused(n));
  const waits = refused(4);
  await socket.settle();
  await socket.join('three');
  expect(socket.of('phx_reply').map(({ ref }) => ref)).not.toContain(waits);
});

test('a busy database at a join is not a fault of the tables: the client joins again', async () => {
  world = await startBackendWorld(`
version: 1
project: { name: busy }
server: { timeouts: { db_query: 1s } }
tables:
  notes:
    realtime: true
    rls: [{ operations: [select], using: "true" }]
    fields: [{ name: id, type: integer, primary_key: true }]
`);
  const admin = new pg.Client({ connectionString: world.databaseUrl });
  await admin.connect();
  const socket = await open();
  const config = { postgres_changes: [{ event: '*', schema: 'public', table: 'notes' }] };
  await socket.join('before', config);
  await admin.query('begin; lock table notes in access exclusive mode');
  const answer = await socket.reply(socket.push('realtime:notes', 'phx_join', { config }));
  expect(answer.response['reason']).toMatch(/^UnableToConnectToProject: /);
  await admin.query('rollback');
  await admin.end();
  await socket.join('notes', config);
  const told = (): unknown[] => socket.of('system').map(({ payload }) => payload['message']);
  await expect.poll(told).toEqual(['Subscribed to PostgreSQL', 'Subscribed to PostgreSQL']);
});
