// Runs the product's statements on a server that restarts, and checks the reported outcome of interrupted ones.
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { startSilentProxy, type SilentProxy } from '../../../test/support/network/silent-proxy.ts';
import { parseAddress } from '../address/parse-address.ts';
import { OwnerDatabase } from '../owner-database.ts';
import { databaseFailure } from '../pg-error.ts';
import { raw } from '../sql.ts';

let database: TestDatabase;
let other: pg.Client;
let way: SilentProxy;
let owner: OwnerDatabase | undefined;

beforeAll(async () => {
  database = await createDatabase();
  other = new pg.Client(database.url);
  await other.connect();
  await other.query('create table notes (id int)');
  way = await startSilentProxy(database.url);
});
afterEach(async () => {
  way.recover();
  await owner?.close();
});
afterAll(async () => {
  await other.end();
  await way.close();
  await database.drop();
});

function open(failoverWaitMs: number): OwnerDatabase {
  owner = new OwnerDatabase({
    address: parseAddress(way.through(database.url)),
    applicationName: 'svc-test',
    max: 5,
    idleTimeoutMs: 60_000,
    statementTimeoutMs: 30_000,
    failoverWaitMs,
  });
  return owner;
}

const rows = async (): Promise<number> => (await other.query('select from notes')).rowCount ?? 0;
const waiting = async (): Promise<number> =>
  (await other.query("select from pg_locks where not granted and relation = 'notes'::regclass")).rowCount ??
  0;

test('a lone write that was cut off may have been done, a transaction before its commit was not', async () => {
  const db = open(5_000);
  const insert = raw('insert into notes values (1)');
  await other.query('begin; lock table notes');
  const outcomes = [
    db.query(insert),
    db.transaction((transaction) => transaction.query(insert)),
    db.query(raw('select from notes')),
  ].map((work) =>
    work.then(
      () => 'done',
      (error: unknown) => databaseFailure(error)?.kind,
    ),
  );
  await expect.poll(waiting).toBe(3);
  way.reset();
  expect(await Promise.all(outcomes.slice(0, 2))).toEqual(['outcome-unknown', 'unreachable']);
  await other.query('commit');
  // It reads only, so it is asked again.
  expect(await outcomes[2]).toBe('done');
});

test('a killed server process: the statement did not happen, and is done again', async () => {
  const db = open(5_000);
  const before = await rows();
  await other.query('begin; lock table notes');
  const done = db.query(raw('insert into notes values (2)'));
  await expect.poll(waiting).toBe(1);
  await other.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'svc-test' and datname = current_database()`,
  );
  await expect.poll(waiting).toBe(1);
  await other.query('commit');
  await done;
  expect(await rows()).toBe(before + 1);
});

test('many that wait ask for a connection one at a time, and all are served when it is back', async () => {
  const db = open(20_000);
  way.restart();
  const first = db.query(raw('insert into notes values (99)'));
  await expect.poll(() => way.refusals).toBeGreaterThan(1);
  const before = way.refusals;
  const held = Array.from({ length: 200 }, (_, number) =>
    db.query(raw(`insert into notes values (${100 + number})`)),
  );
  await expect.poll(() => way.refusals - before).toBeGreaterThan(10);
  expect(way.refusals - before).toBeLessThan(40);
  way.recover();
  await Promise.all([first, ...held]);
  expect((await other.query('select from notes where id >= 99')).rowCount).toBe(201);
});

test('after the window: nothing was done, try again', async () => {
  const db = open(300);
  way.restart();
  await expect(db.query(raw('insert into notes values (3)'))).rejects.toMatchObject({
    name: 'DatabaseUnavailable',
  });
  expect((await other.query('select from notes where id = 3')).rowCount).toBe(0);
});
