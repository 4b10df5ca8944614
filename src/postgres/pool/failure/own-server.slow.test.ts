// Tests that need a dedicated server: a commit that waits for an absent standby, a shutdown during that wait, and a
// role with a limit of four connections.
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startFreshCluster, type FreshCluster } from '../../../../test/support/peers/fresh-cluster.ts';
import { provisionAt, type ProvisionedAt } from '../../../../test/support/provision.ts';
import { rounds } from '../../../../test/support/rounds.ts';
import { parseAddress } from '../../address/parse-address.ts';
import { DatabaseUnavailable, OutcomeUnknown } from '../../pg-error.ts';
import { CallerPool, type CallerSettings } from '../caller-pool.ts';

const ANON: CallerSettings = { role: 'anon', claims: '{"role":"anon"}' };

let cluster: FreshCluster;
let roles: ProvisionedAt;
let administrator: pg.Client;

beforeAll(async () => {
  cluster = await startFreshCluster();
  roles = await provisionAt(cluster.url);
  administrator = new pg.Client(cluster.url);
  administrator.on('error', () => {});
  await administrator.connect();
  // A server for tests is started with it off.
  await administrator.query('alter role authenticator set synchronous_commit = on');
  await administrator.query(
    'set synchronous_commit = local; create table public.events (id int); ' +
      'grant insert, select on public.events to anon',
  );
});

afterAll(async () => {
  await administrator.end().catch(() => {});
  await cluster.stop();
});

const newPool = (max: number, acquireTimeoutMs?: number): CallerPool =>
  new CallerPool({
    address: parseAddress(roles.authenticatorUrl),
    applicationName: 'svc-test',
    max,
    minIdle: 0,
    idleTimeoutMs: 60_000,
    acquireTimeoutMs,
    failoverWaitMs: 1_000,
  });

const insert = (pool: CallerPool, id: number): Promise<unknown> =>
  pool
    .run(ANON, [{ text: 'insert into events (id) values ($1)', values: [String(id)] }])
    .catch((error: unknown) => error);

async function timesThere(id: number): Promise<number | undefined> {
  const { rows } = await administrator.query<{ n: number }>(
    'select count(*)::int as n from events where id = $1',
    [id],
  );
  return rows[0]?.n;
}

test('a full server: requests are not rejected early, and the ceiling is remembered', async () => {
  const WORK = rounds(96, 960);
  /** Milliseconds for the same work, which waits more than it computes. */
  const throughput = async (pool: CallerPool): Promise<number> => {
    const from = performance.now();
    let next = 0;
    const client = async (): Promise<void> => {
      while (next++ < WORK) await pool.run(ANON, [{ text: 'select pg_sleep(0.02)', values: [] }]);
    };
    // A rejection fails the test.
    await Promise.all(Array.from({ length: 24 }, client));
    return performance.now() - from;
  };
  const small = newPool(4);
  const configured: number[] = [];
  await throughput(small);
  for (let round = 0; round < 2; round += 1) configured.push(await throughput(small));
  await small.close();
  await administrator.query('alter role authenticator connection limit 4');
  const large = newPool(24);
  try {
    await throughput(large);
    expect(large.size.open).toBe(4);
    const limited: number[] = [];
    for (let round = 0; round < 2; round += 1) limited.push(await throughput(large));
    // The best of each, because the machine has other work too; within a tenth where there is time to measure.
    expect(Math.min(...limited) / Math.min(...configured)).toBeLessThan(rounds(1.5, 1.1));
    const log = await cluster.serverLog();
    // Asked for all at once in the beginning, then by one now and then.
    expect(log.match(/too many connections for role "authenticator"/g)?.length).toBeLessThan(30);
    await administrator.query('alter role authenticator connection limit -1');
    await expect
      .poll(async () => {
        await throughput(large);
        return large.size.open;
      })
      .toBeGreaterThan(4);
  } finally {
    large.destroy();
    await administrator.query('alter role authenticator connection limit -1');
  }
});

const waitingForStandby = async (): Promise<number | undefined> => {
  const { rows } = await administrator.query<{ pid: number }>(
    `select pid from pg_stat_activity where wait_event = 'SyncRep' and usename = 'authenticator'`,
  );
  return rows[0]?.pid;
};

let ids = 0;

/** Inserts until a commit waits for the standby: a changed setting arrives when it does. */
async function insertAndWait(pool: CallerPool): Promise<{ id: number; pid: number; told: Promise<unknown> }> {
  for (;;) {
    const id = (ids += 1);
    let isTold = false;
    const told = insert(pool, id).finally(() => (isTold = true));
    for (;;) {
      const pid = await waitingForStandby();
      if (pid !== undefined) return { id, pid, told };
      if (isTold) break;
    }
  }
}

test('a commit that waits for a standby: how it was cut off decides nothing, it is unknown', async () => {
  const pool = newPool(2);
  try {
    expect(await insert(pool, 0)).toMatchObject([{ tag: 'INSERT 0 1' }]);
    await administrator.query(`alter system set synchronous_standby_names = 'stopped'`);
    await administrator.query('select pg_reload_conf()');

    // After a cancel, the server reports success with a warning.
    const cancelled = await insertAndWait(pool);
    await administrator.query('select pg_cancel_backend($1)', [cancelled.pid]);
    expect(await cancelled.told).toBeInstanceOf(OutcomeUnknown);
    expect(await timesThere(cancelled.id)).toBe(1);

    // An end of the session: a warning, then nothing.
    const ended = await insertAndWait(pool);
    await administrator.query('select pg_terminate_backend($1)', [ended.pid]);
    expect(await ended.told).toBeInstanceOf(OutcomeUnknown);
    expect(await timesThere(ended.id)).toBe(1);

    // Before its commit it is certain, and repeated: here it waits for the standby a second time.
    const locker = new pg.Client(cluster.url);
    await locker.connect();
    await locker.query('begin; lock table events');
    const told = insert(pool, -1);
    await expect
      .poll(async () => (await administrator.query('select from pg_locks where not granted')).rowCount)
      .toBe(1);
    await administrator.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'`,
    );
    await locker.query('rollback');
    await locker.end();
    await expect.poll(waitingForStandby).toBeDefined();
    await administrator.query(`alter system reset synchronous_standby_names`);
    await administrator.query('select pg_reload_conf()');
    expect(await told).toMatchObject([{ tag: 'INSERT 0 1' }]);
    expect(await timesThere(-1)).toBe(1);
  } finally {
    pool.destroy();
  }
});

// The last one: afterwards there is no server.
test('a shutdown while a commit waits for a standby: unknown; what was never sent: nothing was done', async () => {
  const pool = newPool(1);
  await administrator.query(`alter system set synchronous_standby_names = 'stopped'`);
  await administrator.query('select pg_reload_conf()');
  const waiting = await insertAndWait(pool);
  const queued = insert(pool, -2);
  await cluster.stop();
  expect(await waiting.told).toBeInstanceOf(OutcomeUnknown);
  expect(await queued).toBeInstanceOf(DatabaseUnavailable);
  pool.destroy();
});
