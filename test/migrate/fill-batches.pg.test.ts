// Tests backfills of large tables: a batch locks at most twice as many rows as the previous one, and a slow batch is
// cancelled and retried with fewer rows.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { MAX_BATCH_ROWS } from '../../src/migrate/apply/batch-size.ts';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(() => world.empty());

const LARGE = { maxWriteBlockMs: 0 };
const file = (...fields: string[]): string => `tables:
  notes:
    rls: []
    fields:
      - { name: id, type: integer, primary_key: true }
${fields.map((field) => `      - ${field}\n`).join('')}`;

/** Returns the number of rows that each transaction wrote, in order. */
const batches = async (): Promise<number[]> => {
  const rows = await world.sql(
    'select count(*)::int as rows from notes group by xmin order by xmin::text::bigint',
  );
  return rows.map((row) => Number(row['rows']));
};

test('a batch after empty pages is at most twice as large as the previous one', async () => {
  await world.settle(file());
  await world.sql(`insert into notes select generate_series(1, 60000)`);
  await world.sql('delete from notes where id <= 50000');
  await world.sql('vacuum analyze notes');
  await world.settle(file('{ name: note, type: text, required: true, backfill: "\'none\'" }'), LARGE);
  const sizes = await batches();
  expect(sizes.length).toBeGreaterThan(3);
  let largest = 250;
  for (const size of sizes) {
    expect(size).toBeLessThanOrEqual(Math.min(2 * largest, MAX_BATCH_ROWS));
    largest = Math.max(largest, size);
  }
});

test('a batch that exceeds its deadline is cancelled, and the backfill continues with smaller batches', async () => {
  await world.settle(file());
  await world.sql('insert into notes select generate_series(1, 600); create sequence calls');
  await world.sql('grant all on sequence calls to svc_owner');
  const slow =
    "case when coalesce(current_setting('svc.backfill', true), '') = 'on' " +
    "and nextval('calls') = 1 then coalesce(pg_sleep(60)::text, '') else 'none' end";
  await world.settle(file(`{ name: note, type: text, backfill: "${slow}", required: true }`), LARGE);
  expect(await world.sql(`select count(*)::int as rows from notes where note = 'none'`)).toEqual([
    { rows: 600 },
  ]);
  expect((await batches())[0]).toBeLessThanOrEqual(250);
});

test('a column whose type changes online is copied in small batches', async () => {
  await world.settle(file('{ name: amount, type: integer }'));
  await world.sql('insert into notes select n, n from generate_series(1, 5000) n');
  await world.sql('analyze notes');
  await world.settle(file('{ name: amount, type: bigint }'), LARGE);
  expect((await batches())[0]).toBeLessThanOrEqual(500);
  expect(await world.sql('select sum(amount)::int as sum from notes')).toEqual([{ sum: 12_502_500 }]);
});
