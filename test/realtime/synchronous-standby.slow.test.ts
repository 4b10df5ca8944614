// A primary whose commits wait for a standby: the WAL contains them before they are visible, and they are delivered
// only afterwards.
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startReplicaWorld, type Instance, type ReplicaWorld } from '../support/replica-world.ts';
import { RawSocket } from './raw-socket.ts';

const TABLES = `tables:
  notes:
    realtime: true
    rls: [{ operations: [select], using: "true" }]
    fields: [{ name: id, type: integer, primary_key: true }]
`;

let world: ReplicaWorld;
let instance: Instance;
let writer: pg.Client;

beforeAll(async () => {
  world = await startReplicaWorld(TABLES);
  instance = await world.instance({ readUrl: null });
  writer = new pg.Client({ connectionString: world.databaseUrl });
  await writer.connect();
});

afterAll(async () => {
  await world.standby.resume();
  await writer.end();
  await world.close();
});

test('a commit is delivered after its standby confirms it, and changes keep the order of commits', async () => {
  const socket = await RawSocket.open(instance.url, world.keys.publishable);
  const asked = [{ event: 'INSERT', schema: 'public', table: 'notes' }];
  await socket.join('notes', { postgres_changes: asked });
  const heard = (): unknown[] =>
    socket
      .of('postgres_changes')
      .map(({ payload }) => (payload['data'] as { record: { id: number } }).record.id);
  // Only the writer waits, and only for the standby by name, because the stream of svc is a WAL sender too.
  await world.query(`alter system set synchronous_standby_names = 'standby'`);
  await world.query(`alter database replicated set synchronous_commit = local`);
  await world.query('select pg_reload_conf()');
  await expect
    .poll(async () => await world.query(`select from pg_stat_replication where sync_state = 'sync'`))
    .toHaveLength(1);
  await writer.query('set synchronous_commit = remote_apply');
  await world.standby.pause();

  const written = writer.query('insert into notes values (1)');
  await expect
    .poll(async () => await world.query(`select from pg_stat_activity where wait_event = 'SyncRep'`))
    .not.toEqual([]);
  await world.query('set synchronous_commit = local; insert into notes values (2)');
  const [end] = await world.query('select pg_current_wal_insert_lsn()::text as lsn');
  // The instance has read both from the WAL at this point.
  await expect
    .poll(
      async () =>
        await world.query(`select from pg_replication_slots
          where slot_type = 'logical' and confirmed_flush_lsn >= '${end?.['lsn'] ?? ''}'`),
    )
    .toHaveLength(1);
  await socket.settle();
  expect(heard()).toEqual([]);
  expect(await world.query('select id from notes')).toEqual([{ id: 2 }]);

  await world.standby.resume();
  await written;
  await expect.poll(heard).toEqual([1, 2]);
  socket.close();
});
