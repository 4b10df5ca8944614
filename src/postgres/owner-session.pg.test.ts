// Sessions that OwnerDatabase lends: no state of one use reaches the next.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { parseAddress } from './address/parse-address.ts';
import { OwnerDatabase, type Queryable } from './owner-database.ts';
import { raw } from './sql.ts';

let database: TestDatabase;
let owner: OwnerDatabase;

beforeAll(async () => {
  database = await createDatabase();
  owner = new OwnerDatabase({
    address: parseAddress(database.url),
    applicationName: 'svc-test',
    max: 1,
    idleTimeoutMs: 60_000,
  });
});
afterAll(async () => {
  await owner.close();
  await database.drop();
});

const STATE =
  raw(`select pg_backend_pid() as pid, current_user as role, current_setting('search_path') as path,
  (select count(*)::int from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()) as locks,
  (select count(*)::int from pg_listening_channels()) as channels,
  (select count(*)::int from pg_cursors) as cursors,
  to_regclass('pg_temp.notes') as table,
  pg_current_xact_id_if_assigned() as transaction`);

async function readState(session: Queryable): Promise<Record<string, unknown> | undefined> {
  return (await session.query(STATE))[0];
}

test('a lent session leaves its connection without settings, locks, channels, cursors and temporary tables', async () => {
  const before = await owner.session(readState);
  await owner.session(async (session) => {
    for (const statement of [
      `set role pg_monitor`,
      `reset role`,
      `set search_path = pg_catalog`,
      `select pg_advisory_lock(1)`,
      `listen news`,
      `create temp table notes (id int)`,
      `declare all_roles cursor with hold for select rolname from pg_roles`,
      `set role pg_monitor`,
      `begin`,
      `select pg_current_xact_id()`,
    ])
      await session.query(raw(statement));
  });
  expect(await owner.session(readState)).toEqual(before);
});

test('work that throws closes its connection', async () => {
  const pid = async (session: Queryable): Promise<unknown> => (await readState(session))?.['pid'];
  const before = await owner.session(pid);
  const failed = owner.session(async () => {
    throw new Error('no');
  });
  await expect(failed).rejects.toThrow('no');
  expect(await owner.session(pid)).not.toBe(before);
});
