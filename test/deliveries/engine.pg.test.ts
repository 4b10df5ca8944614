// Claims, leases, overlaps and missed times, with several engines on one database.
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Schedule } from '../../src/config/config.ts';
import type { Ended } from '../../src/deliveries/delivery-rows.ts';
import { DeliveryEngine, type Attempt } from '../../src/deliveries/engine.ts';
import {
  listSchedules,
  readScheduleTimes,
  runDueSchedules,
  runNow,
  setPaused,
  syncSchedules,
} from '../../src/deliveries/schedules/schedule-rows.ts';
import { createTables } from '../../src/deliveries/tables.ts';
import { silentLog } from '../../src/log/log.ts';
import type { OwnerDatabase } from '../../src/postgres/owner-database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { startOwnerWorld, type OwnerWorld } from '../support/owner-world.ts';

let world: OwnerWorld;
let db: OwnerDatabase;
const engines: DeliveryEngine[] = [];

beforeAll(async () => {
  world = await startOwnerWorld();
  db = world.owner;
  await Promise.all([createTables(db), createTables(db), createTables(db)]);
  expect(await createTables(db)).toBe(true);
});
beforeEach(async () => {
  await db.query(sql`delete from svc_events.delivery`);
  await db.query(sql`delete from svc_events.schedule`);
});
afterEach(async () => {
  await Promise.all(engines.splice(0).map((engine) => engine.close()));
});
afterAll(() => world?.close());

const schedule = (more: Partial<Schedule> = {}): Schedule => ({
  name: 'job',
  cron: undefined,
  everyMs: 3_600_000,
  timezone: undefined,
  function: undefined,
  rpc: 'job',
  payload: '{"a":1}',
  overlap: 'skip',
  missed: 'once',
  retries: 0,
  enabled: true,
  position: { line: 1, column: 1 },
  ...more,
});

function start(
  run: (attempt: Attempt, signal: AbortSignal) => Promise<Ended>,
  { instance = 'one', retries = 0, concurrency = 4 } = {},
): DeliveryEngine {
  const engine = new DeliveryEngine({ db, instance, concurrency, log: silentLog, onEnded: () => {} });
  engines.push(engine);
  engine.serve([{ kind: 'schedule', name: 'job', retries, run }], {
    produce: () => Promise.resolve(Infinity),
  });
  return engine;
}

const done = (): Promise<Ended> => Promise.resolve({ outcome: 'done' });

async function states(): Promise<unknown[]> {
  return await db.query(sql`select state, attempts, reason from svc_events.delivery order by id`);
}

async function makeDue(ago: string): Promise<void> {
  await db.query(sql`update svc_events.schedule set next_at = now() - ${ago}::interval`);
}

/** Ends the lease of all running deliveries, as if their instance had stopped to renew it. */
async function endLeases(): Promise<void> {
  await db.query(sql`update svc_events.delivery set lease_until = now() where state = 'running'`);
}

test('a new or changed schedule is due in the future, and an unchanged one keeps its time', async () => {
  const hourly = schedule();
  await syncSchedules(db, [hourly]);
  const { next_at, now, is_incomplete } = await readScheduleTimes(db, [hourly]);
  expect(is_incomplete).toBe(false);
  expect(next_at?.getTime()).toBeGreaterThan(now.getTime());
  await makeDue('3 hours');
  await syncSchedules(db, [hourly]);
  expect((await readScheduleTimes(db, [hourly])).next_at?.getTime()).toBeLessThan(now.getTime());
  const daily = schedule({ everyMs: undefined, cron: '@daily' });
  await syncSchedules(db, [daily]);
  expect((await readScheduleTimes(db, [daily])).next_at?.getTime()).toBeGreaterThan(now.getTime());
  // Removed, and declared again after some hours.
  await syncSchedules(db, []);
  expect(await listSchedules(db)).toMatchObject([{ name: 'job', next_at: null }]);
  await syncSchedules(db, [daily]);
  expect((await readScheduleTimes(db, [daily])).next_at?.getTime()).toBeGreaterThan(now.getTime());
});

test('a due time has one delivery, however many instances see it', async () => {
  const hourly = schedule();
  await syncSchedules(db, [hourly]);
  for (let round = 1; round <= 5; round++) {
    await makeDue('1 hour');
    const counts = await Promise.all(Array.from({ length: 4 }, () => runDueSchedules(db, [hourly])));
    expect(counts.toSorted((a, b) => a - b)).toEqual([0, 0, 0, 1]);
  }
});

test.each([
  ['once', [{ missed: 2 }]],
  ['skip', [{ missed: 2 }]],
  ['all', [{ missed: 0 }, { missed: 0 }, { missed: 0 }]],
] as const)('missed: %s', async (missed, expected) => {
  const yearly = schedule({ missed, everyMs: undefined, cron: '0 0 1 1 *', overlap: 'wait' });
  await syncSchedules(db, [yearly]);
  await db.query(
    sql`update svc_events.schedule
      set next_at = date_trunc('year', now() at time zone 'UTC') at time zone 'UTC' - interval '2 years'`,
  );
  await runDueSchedules(db, [yearly]);
  const rows = await db.query(
    sql`select (body ->> 'missed')::int as missed from svc_events.delivery order by id`,
  );
  expect(rows).toEqual(expected);
  // On the first of January the latest time may have just passed.
  const isSkipped = (await states()).some((row) => (row as { state: string }).state === 'skipped');
  if (missed !== 'skip') expect(isSkipped).toBe(false);
});

test('overlap: skip leaves a run out, wait runs it afterwards, allow runs both', async () => {
  const open = Promise.withResolvers<void>();
  let most = 0;
  let now = 0;
  const engine = start(async () => {
    most = Math.max(most, ++now);
    await open.promise;
    now--;
    return { outcome: 'done' };
  });
  for (const overlap of ['wait', 'skip', 'wait'] as const) {
    const hourly = schedule({ overlap });
    await syncSchedules(db, [hourly]);
    await makeDue('1 hour');
    await runDueSchedules(db, [hourly]);
    engine.wake();
    await expect.poll(() => engine.runningCount).toBe(1);
  }
  expect(await states()).toMatchObject([
    { state: 'running' },
    { state: 'skipped', reason: 'overlap' },
    { state: 'waiting' },
  ]);
  const both = schedule({ overlap: 'allow' });
  await makeDue('1 hour');
  await runDueSchedules(db, [both]);
  engine.wake();
  await expect.poll(() => engine.runningCount).toBe(2);
  open.resolve();
  await expect
    .poll(states)
    .toMatchObject([{ state: 'done' }, { state: 'skipped' }, { state: 'done' }, { state: 'done' }]);
  expect(most).toBe(2);
});

test('a lost instance costs one more attempt, and its late end changes nothing', async () => {
  const stalled = Promise.withResolvers<Ended>();
  const first = start(() => stalled.promise, { instance: 'first' });
  await runNow(db, schedule());
  first.wake();
  await expect.poll(states).toMatchObject([{ state: 'running', attempts: 1 }]);
  const seen: Attempt[] = [];
  const second = start(
    (attempt) => {
      seen.push(attempt);
      return done();
    },
    { instance: 'second' },
  );
  await endLeases();
  second.wake();
  await expect.poll(states).toMatchObject([{ state: 'done', attempts: 2 }]);
  stalled.resolve({ outcome: 'failed', error: 'too late' });
  await expect.poll(() => first.runningCount).toBe(0);
  expect(await states()).toMatchObject([{ state: 'done', attempts: 2, reason: null }]);
  expect(seen).toMatchObject([{ number: 2, isLast: true }]);
  expect(await db.query(sql`select attempt, outcome from svc_events.run order by attempt`)).toEqual([
    { attempt: 1, outcome: 'lost' },
    { attempt: 2, outcome: 'done' },
  ]);
});

test('a delivery that ends each instance is dead after five attempts', async () => {
  await runNow(db, schedule());
  for (let attempt = 1; attempt <= 5; attempt++) {
    const stalled = Promise.withResolvers<Ended>();
    const engine = start(() => stalled.promise);
    await expect.poll(states).toMatchObject([{ state: 'running', attempts: attempt }]);
    await engine.stop();
    await endLeases();
    const second = start(() => Promise.resolve({ outcome: 'returned' }), {
      instance: 'other',
      concurrency: 0,
    });
    await expect
      .poll(states)
      .toMatchObject([{ state: attempt === 5 ? 'dead' : 'waiting', attempts: attempt }]);
    stalled.resolve({ outcome: 'done' });
    await Promise.all([engine.close(), second.close()]);
  }
});

test('a shutdown returns running deliveries at once, without an attempt', async () => {
  const engine = start(
    (_attempt, signal) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => resolve({ outcome: 'failed', error: 'aborted' }));
      }),
  );
  await runNow(db, schedule());
  engine.wake();
  await expect.poll(states).toMatchObject([{ state: 'running', attempts: 1 }]);
  await engine.stop();
  await engine.close();
  expect(await states()).toMatchObject([{ state: 'waiting', attempts: 0 }]);
  expect(await db.query(sql`select from svc_events.run`)).toEqual([]);
});

test('no more deliveries run than the budget allows', async () => {
  const open = Promise.withResolvers<void>();
  let most = 0;
  let now = 0;
  const engine = start(
    async () => {
      most = Math.max(most, ++now);
      await open.promise;
      now--;
      return { outcome: 'done' };
    },
    { concurrency: 3 },
  );
  for (let count = 0; count < 10; count++) await runNow(db, schedule({ overlap: 'allow' }));
  engine.wake();
  await expect.poll(() => engine.runningCount).toBe(3);
  open.resolve();
  await expect
    .poll(async () => (await states()).every((row) => (row as { state: string }).state === 'done'))
    .toBe(true);
  expect(most).toBe(3);
});

test('an instance leaves deliveries of a newer file alone', async () => {
  const engine = start(done);
  await runNow(db, schedule({ name: 'newer' }));
  await runNow(db, schedule());
  engine.wake();
  await expect.poll(states).toMatchObject([{ state: 'waiting', attempts: 0 }, { state: 'done' }]);
});

test('a paused schedule is not due, can be run by hand, and continues from now on', async () => {
  const hourly = schedule();
  await syncSchedules(db, [hourly]);
  expect(await setPaused(db, 'job', true)).toBe(true);
  expect(await setPaused(db, 'job', true)).toBe(false);
  await syncSchedules(db, [hourly]);
  expect(await readScheduleTimes(db, [hourly])).toMatchObject({ next_at: null, is_incomplete: false });
  expect(await runDueSchedules(db, [hourly])).toBe(0);
  await runNow(db, hourly);
  expect(await setPaused(db, 'job', false)).toBe(true);
  expect(await readScheduleTimes(db, [hourly])).toMatchObject({ next_at: null, is_incomplete: true });
  await syncSchedules(db, [hourly]);
  const { next_at, now } = await readScheduleTimes(db, [hourly]);
  expect(next_at?.getTime()).toBeGreaterThan(now.getTime());
});
