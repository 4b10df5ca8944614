// A server that does not allow reading its WAL, because a right or a free WAL sender is missing: the behaviour of
// svc, its log, and its recovery after the server is configured.
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { generateApiKeys } from '../../src/identity/api-key.ts';
import type { Backend } from '../../src/server/backend.ts';
import { startFreshCluster, type FreshCluster } from '../support/peers/fresh-cluster.ts';
import { restartServer } from '../support/peers/restart-server.ts';
import { RawSocket } from './raw-socket.ts';
import { startOn, stop, type Started } from './separate-server.ts';

const TEXT = `
version: 1
project: { name: refused }
tables:
  notes:
    realtime: true
    rls: false
    fields: [{ name: id, type: integer, primary_key: true }]
`;
const ASKED = { postgres_changes: [{ event: 'INSERT', schema: 'public', table: 'notes' }] };

const keys = generateApiKeys();
let cluster: FreshCluster;
let server: { stop(): Promise<void> };
let superuser: pg.Client;
const backends: Backend[] = [];

beforeAll(async () => {
  cluster = await startFreshCluster();
  server = await restartServer(cluster.url, ['wal_level=logical', 'max_wal_senders=1']);
  superuser = new pg.Client({ connectionString: cluster.url });
  await superuser.connect();
});

afterAll(async () => {
  for (const backend of backends) await stop(backend);
  await superuser.end();
  await server.stop();
  await cluster.stop();
});

/** `first`: statements of a superuser after the roles exist and before the log is read. */
async function start(first = 'select'): Promise<Started> {
  const started = await startOn(cluster.url, TEXT, keys, () => superuser.query(first));
  backends.push(started.backend);
  return started;
}

const ready = async ({ url: of }: Backend): Promise<unknown> => {
  const response = await fetch(`${of}/ready`);
  return [response.status, ((await response.json()) as { realtime?: string }).realtime];
};

/** Checks that a client receives an insert. */
async function hears(backend: Backend, id: number): Promise<void> {
  const socket = await RawSocket.open(backend.url, keys.publishable);
  await socket.join('notes', ASKED);
  const writer = new pg.Client({ connectionString: cluster.url });
  await writer.connect();
  await writer.query('insert into notes values ($1)', [id]);
  await writer.end();
  const { payload } = await socket.frame(({ event }) => event === 'postgres_changes');
  expect(payload['data']).toMatchObject({ record: { id } });
  socket.close();
}

test('without the right changes arrive through triggers, and the log names the statement that gives it', async () => {
  const { backend, lines } = await start('alter role svc_owner noreplication');
  await expect.poll(async () => await ready(backend)).toEqual([200, 'triggers']);
  expect(JSON.stringify(lines())).toMatch(
    /read by triggers.*As a superuser: alter role svc_owner replication;/,
  );
  await hears(backend, 1);
  await superuser.query('alter role svc_owner replication');
  await expect.poll(async () => await ready(backend)).toEqual([200, 'live']);
  await hears(backend, 2);
});

test('without a free sender the source waits with a warning, and is live when a sender is free', async () => {
  const { backend, lines } = await start();
  await expect
    .poll(() => JSON.stringify(lines()))
    .toMatch(/all WAL senders .* in use. Raise max_wal_senders/);
  expect(await ready(backend)).toEqual([200, 'connecting']);
  const socket = await RawSocket.open(backend.url, keys.publishable);
  const wait = { ...ASKED, postgres_changes_options: { wait: true, timeout: 300 } };
  const answer = await socket.reply(socket.push('realtime:wait', 'phx_join', { config: wait }));
  expect(answer).toMatchObject({
    status: 'error',
    response: { reason: 'PostgresChangesSubscribeTimeout: Changes of tables cannot be read yet' },
  });
  socket.close();
  const first = backends.shift();
  if (first) await stop(first);
  await expect.poll(async () => await ready(backend)).toEqual([200, 'live']);
  await hears(backend, 3);
});
