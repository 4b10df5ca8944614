// Stored broadcasts: kept on every day, dropped by age, without blocking other statements.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { aConfig } from '../../../test/support/config.ts';
import { createDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { provisionAt } from '../../../test/support/provision.ts';
import { silentLog } from '../../log/log.ts';
import { parseAddress } from '../../postgres/address/parse-address.ts';
import { OwnerDatabase } from '../../postgres/owner-database.ts';
import { maintain } from './maintenance.ts';

const DAY = 86_400_000;
const NOW = new Date();

let database: TestDatabase;
let owner: OwnerDatabase;
let admin: pg.Client;
beforeAll(async () => {
  database = await createDatabase();
  const { ownerUrl } = await provisionAt(database.url);
  owner = new OwnerDatabase({
    address: parseAddress(ownerUrl),
    applicationName: 'svc-test',
    max: 2,
    idleTimeoutMs: 5_000,
  });
  admin = new pg.Client(database.url);
  await admin.connect();
  await admin.query(`set timezone = 'UTC'`);
});
afterAll(async () => {
  await owner.close();
  await admin.end();
  await database.drop();
});
beforeEach(async () => {
  for (const name of await partitions()) await admin.query(`drop table realtime.${name}`);
  await admin.query('truncate realtime.messages, realtime.overflow');
});

async function run(retentionMs = 3 * DAY, now = NOW): Promise<void> {
  const config = aConfig();
  await maintain({
    owner,
    now: () => now,
    log: silentLog,
    config: () => ({ ...config, realtime: { ...config.realtime, retentionMs } }),
  });
}

/** Returns the names of the daily partitions. */
async function partitions(): Promise<string[]> {
  const { rows } = await admin.query(
    `select relname as name from pg_class where relispartition and relkind = 'r' ` +
      `and relname ~ '^messages_\\d' order by 1`,
  );
  return rows.map(({ name }: { name: string }) => name);
}

const partitionName = (date: Date): string =>
  `messages_${date.toISOString().slice(0, 10).replaceAll('-', '_')}`;
const daysFrom = (day: number): Date => new Date(NOW.getTime() + day * DAY);

async function createPartition(day: number): Promise<void> {
  const from = daysFrom(day).toISOString().slice(0, 10);
  const to = daysFrom(day + 1)
    .toISOString()
    .slice(0, 10);
  await admin.query(`set role svc_owner; create table realtime.${partitionName(daysFrom(day))} partition of realtime.messages
    for values from ('${from} 00:00:00+00') to ('${to} 00:00:00+00'); reset role`);
}

async function store(day: number, topic = 'room'): Promise<void> {
  await admin.query(
    'insert into realtime.messages (topic, extension, event, private, inserted_at) values ($1, ' +
      `'broadcast', 'x', true, $2)`,
    [topic, daysFrom(day)],
  );
}

async function topics(): Promise<string[]> {
  const { rows } = await admin.query('select topic from realtime.messages order by 1');
  return rows.map(({ topic }: { topic: string }) => topic);
}

test('a message is kept on a day without a partition, and is dropped by its age', async () => {
  await admin.query(`select realtime.send('{"n": 1}', 'x', 'room:a')`);
  expect(await topics()).toEqual(['room:a']);
  await store(-2, 'young');
  await store(-4, 'old');
  await run();
  expect(await topics()).toEqual(['room:a', 'young']);
});

test('partitions exist for today and each of the next seven days', async () => {
  await run();
  expect(await partitions()).toEqual(Array.from({ length: 8 }, (_, day) => partitionName(daysFrom(day))));
  await run();
  expect(await partitions()).toHaveLength(8);
});

test('a partition is dropped when its last message is too old, except the partition of today', async () => {
  for (const day of [-5, -4, -3, -2]) {
    await createPartition(day);
    await store(day, partitionName(daysFrom(day)));
  }
  await run();
  expect((await partitions()).slice(0, 2)).toEqual([-3, -2].map((day) => partitionName(daysFrom(day))));
  expect(await topics()).toEqual([-3, -2].map((day) => partitionName(daysFrom(day))));
  await store(0, 'today');
  await run(0);
  expect((await partitions())[0]).toBe(partitionName(NOW));
  expect(await topics()).toContain('today');
});

test('dropping or creating a partition does not block other statements', async () => {
  await createPartition(-9);
  const reader = new pg.Client(database.url);
  await reader.connect();
  try {
    await reader.query('begin; select count(*) from realtime.messages');
    // The run ends while the reader keeps its lock.
    await run();
    expect(await partitions()).toEqual([partitionName(daysFrom(-9))]);
    // Other sessions can read in the meantime.
    await admin.query('select count(*) from realtime.messages');
  } finally {
    await reader.end();
  }
  await run();
  expect(await partitions()).toHaveLength(8);
});

test('rows of the bus are kept for a minute', async () => {
  await admin.query(`insert into realtime.overflow (id, at, body) values
    (gen_random_uuid(), now() - interval '2 minutes', 'old'), (gen_random_uuid(), now(), 'young')`);
  await run();
  expect((await admin.query('select body from realtime.overflow')).rows).toEqual([{ body: 'young' }]);
});

test('concurrent runs create each partition once', async () => {
  await Promise.all([run(), run(), run()]);
  expect(await partitions()).toHaveLength(8);
});
