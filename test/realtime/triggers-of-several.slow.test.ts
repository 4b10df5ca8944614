// Changes by triggers with several instances: when any instance creates a trigger, the clients of all instances are
// notified of a gap.
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { startBackend, type Backend } from '../../src/server/backend.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { RawSocket } from './raw-socket.ts';

const YAML = `
version: 1
project: { name: several }
tables:
  notes:
    realtime: true
    rls: false
    fields: [{ name: id, type: integer, primary_key: true }]
realtime: { source: triggers }
`;

let world: BackendWorld;
let admin: pg.Client;
const peers: Backend[] = [];
const sockets: RawSocket[] = [];

beforeAll(async () => {
  world = await startBackendWorld(YAML);
  peers.push(await startBackend({ ...world.options, port: 0 }));
  peers.push(await startBackend({ ...world.options, port: 0 }));
  admin = new pg.Client({ connectionString: world.databaseUrl });
  await admin.connect();
});

afterEach(() => {
  for (const socket of sockets.splice(0)) socket.close();
});

afterAll(async () => {
  for (const peer of peers) await peer.stop();
  await admin.end();
  await world.close();
});

/** A client of each instance. */
async function everywhere(): Promise<Array<{ socket: RawSocket; join: () => Promise<string> }>> {
  return await Promise.all(
    [world, ...peers].map(async ({ url }) => {
      const socket = await RawSocket.open(url, world.keys.publishable);
      sockets.push(socket);
      const asked = [{ event: 'INSERT', schema: 'public' }];
      return { socket, join: async () => await socket.join('all', { postgres_changes: asked }) };
    }),
  );
}

const ids = (socket: RawSocket): unknown[] =>
  socket
    .of('postgres_changes')
    .map(({ payload }) => (payload['data'] as { record: { id: number } }).record.id);

test.each([
  ['a trigger that was dropped', async () => await admin.query('drop trigger "~svc_realtime" on notes')],
  [
    'a newly published table',
    async () => {
      await admin.query(`create table more (id integer primary key); grant select on more to anon;
        alter table more owner to svc_owner; alter publication svc_realtime add table more`);
    },
  ],
])('%s: clients of every instance join again, once', async (_what, change) => {
  const all = await everywhere();
  const joins = await Promise.all(all.map(async ({ join }) => await join()));
  await change();
  for (const [at, { socket }] of all.entries()) {
    await socket.frame(({ event, joinRef }) => event === 'phx_error' && joinRef === joins[at]);
  }
  await Promise.all(all.map(async ({ join }) => await join()));
  const { rows } = await admin.query<{ next: number }>(
    'insert into notes select count(*) + 1 from notes returning id as next',
  );
  for (const { socket } of all) {
    await expect.poll(() => ids(socket)).toEqual([rows[0]?.next]);
    expect(socket.of('phx_error')).toHaveLength(1);
  }
});

test('each transaction of many writers reaches each instance once, in one order for each row', async () => {
  const all = await everywhere();
  for (const { join } of all) await join();
  const before = await admin.query('select from notes');
  const base = 1_000 + (before.rowCount ?? 0);
  await Promise.all(
    Array.from({ length: 6 }, async (_, writer) => {
      const client = new pg.Client({ connectionString: world.databaseUrl });
      await client.connect();
      for (let n = 0; n < 50; n++) {
        const id = base + writer * 100 + n * 2;
        await client.query(
          `begin; insert into notes values (${id}); insert into notes values (${id + 1}); commit`,
        );
      }
      await client.end();
    }),
  );
  for (const { socket } of all) {
    await expect.poll(() => ids(socket).length).toBe(600);
    expect(new Set(ids(socket)).size).toBe(600);
    // Rows of one transaction are consecutive.
    const pairs = ids(socket).map(Number);
    for (let at = 0; at < pairs.length; at += 2) expect(pairs[at + 1]).toBe((pairs[at] ?? 0) + 1);
  }
});

test('an instance that ends removes no trigger', async () => {
  const all = await everywhere();
  for (const { join } of all) await join();
  await peers.pop()?.stop();
  await admin.query('insert into notes values (-1)');
  for (const { socket } of all.slice(0, 2)) await expect.poll(() => ids(socket)).toContain(-1);
});

test('an instance that reads the write-ahead log leaves the triggers to those that need them', async () => {
  const [first] = await everywhere();
  await first?.join();
  const { config } = world.options;
  const peer = await startBackend({
    ...world.options,
    port: 0,
    config: { ...config, realtime: { ...config.realtime, source: 'wal' } },
  });
  try {
    const socket = await RawSocket.open(peer.url, world.keys.publishable);
    sockets.push(socket);
    await socket.join('all', { postgres_changes: [{ event: 'INSERT', schema: 'public' }] });
    await admin.query('insert into notes values (-2)');
    for (const one of [socket, first?.socket]) await expect.poll(() => one && ids(one)).toContain(-2);
    const { rows } = await admin.query(`select from pg_trigger where tgname = '~svc_realtime'`);
    expect(rows).not.toHaveLength(0);
    expect(first?.socket.of('phx_error')).toEqual([]);
  } finally {
    await peer.stop();
  }
});
