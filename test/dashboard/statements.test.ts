// The route of the page Statements: what PostgreSQL counts where it has the extension, and what svc counts itself.
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
  cluster = await startFreshCluster(undefined, 'pg_stat_statements');
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

/** Two rows by the service, then three reads of one shape, with other values, by anon. */
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

const readsOf = ({ statements }: StatementList): StatementFigures[] =>
  statements.filter((one) => one.role === 'anon' && one.sql?.includes('"notes"') === true);

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
    expect(readsOf(seen)).toMatchObject([{ calls: 3 }]);
    expect(seen.statements.find(({ role }) => role === 'service_role')).toMatchObject({ calls: 1 });
    expect(seen.statements).toHaveLength(2);
  });

  test('the page is told when only the extension itself is missing, and svc does not create it', async () => {
    const { world, list } = await startWorld({ server: cluster.url });
    expect(await list()).toMatchObject({ source: 'own', missing: { reason: 'not_installed' } });
    const extensions = await world.owner.query(
      sql`select extname from pg_extension where extname = 'pg_stat_statements'`,
    );
    expect(extensions).toEqual([]);
  });
});

describe('with the extension', () => {
  test('PostgreSQL is asked: this database, our roles, the texts of callers as well', async () => {
    const { world, list } = await startWorld({
      server: cluster.url,
      prepare: (url) => asSuperuser(url, 'create extension pg_stat_statements'),
    });
    await use(world);
    await asSuperuser(world.databaseUrl, `select 'of somebody else'`);
    const seen = await list();
    expect(seen).toMatchObject({ source: 'pg_stat_statements', missing: null, process: null });
    expect(Date.parse(seen.since ?? '')).toBeLessThanOrEqual(Date.now());
    expectWhole(seen);
    expect(readsOf(seen)).toMatchObject([{ calls: 3 }]);
    const roles = new Set(seen.statements.map(({ role }) => role));
    expect(roles).toContain('svc_owner');
    expect(roles).toContain('service_role');
    expect(roles).not.toContain('postgres');
    expect(seen.statements.filter((one) => one.role === 'svc_owner' && one.sql === null)).toEqual([]);
  });

  test('figures whose text nobody may read are shown without it', async () => {
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
    expect(ofAnon.filter((one) => one.sql !== null)).toEqual([]);
    await asSuperuser(world.databaseUrl, 'grant pg_read_all_stats to svc_owner');
    expect(readsOf(await list())).toMatchObject([{ calls: 3 }]);
    await asSuperuser(world.databaseUrl, 'revoke pg_read_all_stats from svc_owner');
  });

  test('one that cannot be read is said with PostgreSQL’s words, and svc counts itself', async () => {
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
