// Route of the page Statements: counters of PostgreSQL if the extension is available, otherwise counters of svc.
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { StatementFigures, StatementList } from '../../src/dashboard-api/contract.ts';
import { sql } from '../../src/postgres/sql.ts';
import { startDashboardWorld, type DashboardWorld } from '../support/dashboard/dashboard-world.ts';
import { startFreshCluster, type FreshCluster } from '../support/peers/fresh-cluster.ts';

const FILE = `
version: 1
tables:
  notes:
    fields:
      - { name: id, type: int, primary_key: true }
      - { name: body, type: text }
    rls: [{ operations: [select, insert], using: 'true' }]
`;
const VALUE = 'a value of a caller';

let cluster: FreshCluster;
const worlds: DashboardWorld[] = [];

beforeAll(async () => {
  cluster = await startFreshCluster({ preload: 'pg_stat_statements' });
});

afterAll(async () => {
  for (const world of worlds) await world.close();
  await cluster.stop();
});

async function startWorld(
  options: Parameters<typeof startDashboardWorld>[1] = {},
): Promise<{ world: DashboardWorld; list: () => Promise<StatementList> }> {
  const world = await startDashboardWorld(FILE, options);
  worlds.push(world);
  const page = await world.signIn();
  return { world, list: async () => (await page.call('/statements')).json as StatementList };
}

async function asSuperuser(url: string, ...statements: readonly string[]): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}

/** Inserts two rows as the service, then reads one statement shape three times with different values as anon. */
async function use({ url, keys }: DashboardWorld): Promise<void> {
  const rest = async (key: string, path: string, init: RequestInit = {}): Promise<void> => {
    const response = await fetch(`${url}/rest/v1/${path}`, {
      ...init,
      headers: { apikey: key, 'content-type': 'application/json' },
    });
    expect(response.ok, await response.text()).toBe(true);
  };
  const rows = [1, 2].map((id) => ({ id, body: `${VALUE} ${id}` }));
  await rest(keys.secret, 'notes', { method: 'POST', body: JSON.stringify(rows) });
  for (const id of [1, 2, 3]) await rest(keys.publishable, `notes?body=eq.${VALUE} ${id}`);
}

const readStatements = ({ statements }: StatementList): StatementFigures[] =>
  statements.filter((statement) => statement.role === 'anon' && statement.sql?.includes('"notes"') === true);

function expectWhole({ statements }: StatementList): void {
  expect(JSON.stringify(statements)).not.toContain(VALUE);
  expect(statements.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1, 5);
  expect(statements.map(({ totalMs }) => totalMs)).toEqual(
    statements.map(({ totalMs }) => totalMs).sort((a, b) => b - a),
  );
  const ids = statements.map(({ id }) => id).filter((id) => id !== '');
  expect(new Set(ids).size).toBe(ids.length);
  for (const { calls, meanMs, totalMs } of statements) expect(meanMs * calls).toBeCloseTo(totalMs, 3);
}

describe('without the extension', () => {
  test('statements of requests are counted by their shape and role', async () => {
    const { world, list } = await startWorld();
    expect(await list()).toMatchObject({
      source: 'own',
      missing: { reason: 'not_loaded', message: null },
      process: null,
      statements: [],
      more: 0,
    });
    await use(world);
    const seen = await list();
    expect(Date.parse(seen.since ?? '')).toBeLessThanOrEqual(Date.now());
    expectWhole(seen);
    expect(readStatements(seen)).toMatchObject([{ calls: 3 }]);
    expect(seen.statements.find(({ role }) => role === 'service_role')).toMatchObject({ calls: 1 });
    expect(seen.statements).toHaveLength(2);
  });

  test('reads of the dashboard are not counted', async () => {
    const { world, list } = await startWorld();
    await use(world);
    const before = await list();
    const page = await world.signIn();
    expect((await page.call('/as/service/rest/v1/notes?limit=1&select=id')).status).toBe(200);
    expect((await page.call(`/as/anon/rest/v1/notes?body=eq.${encodeURIComponent(VALUE)}`)).status).toBe(200);
    expect((await list()).statements).toEqual(before.statements);
  });

  test('reports if only the extension is missing, and svc does not create it', async () => {
    const { world, list } = await startWorld({ server: cluster.url });
    expect(await list()).toMatchObject({ source: 'own', missing: { reason: 'not_installed' } });
    const extensions = await world.owner.query(
      sql`select extname from pg_extension where extname = 'pg_stat_statements'`,
    );
    expect(extensions).toEqual([]);
  });
});

describe('with the extension', () => {
  test('reads the counters of this database and the roles of svc, including statements of callers', async () => {
    const { world, list } = await startWorld({
      server: cluster.url,
      prepare: (url) => asSuperuser(url, 'create extension pg_stat_statements'),
    });
    await use(world);
    await asSuperuser(world.databaseUrl, `select 'of another role'`);
    const seen = await list();
    expect(seen).toMatchObject({ source: 'pg_stat_statements', missing: null, process: null });
    expect(Date.parse(seen.since ?? '')).toBeLessThanOrEqual(Date.now());
    expectWhole(seen);
    expect(readStatements(seen)).toMatchObject([{ calls: 3 }]);
    const roles = new Set(seen.statements.map(({ role }) => role));
    expect(roles).toContain('svc_owner');
    expect(roles).toContain('service_role');
    expect(roles).not.toContain('postgres');
    expect(
      seen.statements.filter((statement) => statement.role === 'svc_owner' && statement.sql === null),
    ).toEqual([]);
    expect(
      (await list()).statements.filter((statement) => statement.sql?.includes('pg_stat_statements')),
    ).toEqual([]);
  });

  test('shows figures without their text if no role can read it', async () => {
    const { world, list } = await startWorld({
      server: cluster.url,
      prepare: (url) =>
        asSuperuser(
          url,
          'create schema hidden',
          'create extension pg_stat_statements schema hidden',
          'grant usage on schema hidden to svc_owner',
        ),
    });
    await use(world);
    const seen = await list();
    expect(seen.source).toBe('pg_stat_statements');
    const ofAnon = seen.statements.filter(({ role }) => role === 'anon');
    expect(ofAnon.length).toBeGreaterThan(0);
    expect(ofAnon.filter((statement) => statement.sql !== null)).toEqual([]);
    await asSuperuser(world.databaseUrl, 'grant pg_read_all_stats to svc_owner');
    expect(readStatements(await list())).toMatchObject([{ calls: 3 }]);
    await asSuperuser(world.databaseUrl, 'revoke pg_read_all_stats from svc_owner');
  });

  test('reports the error of PostgreSQL if the extension cannot be read, and uses the counters of svc', async () => {
    const { list } = await startWorld({
      server: cluster.url,
      prepare: (url) =>
        asSuperuser(url, 'create schema hidden', 'create extension pg_stat_statements schema hidden'),
    });
    expect(await list()).toMatchObject({
      source: 'own',
      missing: { reason: 'unreadable', message: 'permission denied for schema hidden' },
    });
  });
});
