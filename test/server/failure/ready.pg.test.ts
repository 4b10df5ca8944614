// The response of `/ready`: its content, who may see it, and its cost.
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readInstancesAlive } from '../../../src/postgres/instances.ts';
import { startBackend } from '../../../src/server/backend.ts';
import { startBackendWorld, type BackendWorld } from '../../support/backend-world.ts';

const YAML = `version: 1
project: { name: ready }
server: { trusted_proxies: [192.0.2.0/24] }
`;

let world: BackendWorld;
let watcher: pg.Client;

beforeAll(async () => {
  world = await startBackendWorld(YAML);
  watcher = new pg.Client({ connectionString: world.databaseUrl });
  await watcher.connect();
});

afterAll(async () => {
  await watcher.end();
  await world.close();
});

type Body = Readonly<Record<string, unknown>>;

async function ready(headers: Readonly<Record<string, string>> = {}): Promise<Body> {
  const answer = await fetch(`${world.url}/ready`, { headers });
  expect(answer.status).toBe(200);
  return (await answer.json()) as Body;
}

test('strangers see the state; local callers and the secret key also see the reasons', async () => {
  const checks = { primary: 'good', data: 'good', functions: 'good' };
  const forwarded = { 'x-forwarded-for': '198.51.100.1' };
  const stranger = await ready(forwarded);
  expect(stranger).toEqual({
    status: 'ready',
    since: stranger['since'],
    checks,
    realtime: expect.stringMatching(/^(live|connecting)$/),
  });
  expect(Date.parse(String(stranger['since']))).toBeLessThanOrEqual(Date.now());
  expect(await ready({ ...forwarded, apikey: world.keys.publishable })).toEqual(stranger);
  const details = {
    degraded: [],
    reasons: {},
    link: 'direct',
    connections: { instances: 1, each: 32, sum: 32, limit: expect.any(Number) },
    instance: expect.stringMatching(/^[0-9a-f]{8}$/),
  };
  expect(await ready({ ...forwarded, apikey: world.keys.secret })).toMatchObject(details);
  expect(await ready({ ...forwarded, authorization: `Bearer ${world.keys.secret}` })).toMatchObject(details);
  expect(await ready()).toMatchObject(details);
});

test('a flood of questions costs the database neither statements nor connections', async () => {
  const counts = async (): Promise<{ statements: number; sessions: number }> => {
    const { rows } = await watcher.query<{ statements: number; sessions: number }>(
      `select (select xact_commit::int from pg_stat_database where datname = current_database()) as statements,
        (select count(*)::int from pg_stat_activity
          where datname = current_database() and application_name ~ '^svc/[0-9a-f]+/probe$') as sessions`,
    );
    if (!rows[0]) throw new Error('no row');
    return rows[0];
  };
  const before = await counts();
  const startedAt = performance.now();
  for (let round = 0; round < 30; round++) await Promise.all(Array.from({ length: 50 }, () => ready()));
  // Session counts are published once a second.
  await expect.poll(async () => (await counts()).statements).toBeGreaterThan(before.statements);
  const after = await counts();
  const seconds = (performance.now() - startedAt) / 1_000;
  expect(after.statements - before.statements).toBeLessThan(100 + 10 * seconds);
  expect([before.sessions, after.sessions]).toEqual([1, 1]);
});

test('counts two instances, and reports a limit that is too small for both with a repair', async () => {
  const { rows } = await watcher.query<{ name: string }>('select current_database() as name');
  const name = watcher.escapeIdentifier(rows[0]?.name ?? '');
  await watcher.query(`alter database ${name} connection limit 50`);
  const second = await startBackend(world.options);
  try {
    expect(await readInstancesAlive(world.owner)).toHaveLength(2);
    const shortage =
      '2 instances × 32 = 64 of 50 (CONNECTION LIMIT of the database): ' +
      'lower database.pool.max to 13 or put a pooler before it';
    await expect
      .poll(async () => (await (await fetch(`${second.url}/ready`)).json()) as Body)
      .toMatchObject({ status: 'degraded', degraded: [{ code: 'connections_short', reason: shortage }] });
  } finally {
    await second.stop();
    await watcher.query(`alter database ${name} connection limit -1`);
  }
  await expect.poll(() => readInstancesAlive(world.owner)).toHaveLength(1);
});
