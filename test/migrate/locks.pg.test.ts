// Checks the locks and rewrites in plans against PostgreSQL: runs a step of each kind, and reads pg_locks and the file
// of the table while its transaction is open.
import pg from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Step } from '../../src/migrate/plan/step.ts';
import { aWorld, type World } from './world.ts';

let world: World;
beforeEach(async () => {
  world = await aWorld();
});
afterEach(() => world.close());

const LOCKS_BY_STRENGTH = [
  'none',
  'AccessShare',
  'RowExclusive',
  'ShareUpdateExclusive',
  'Share',
  'ShareRowExclusive',
  'AccessExclusive',
] as const;

type Lock = (typeof LOCKS_BY_STRENGTH)[number];
type Observed = { readonly lock: Lock; readonly otherLocks: readonly Lock[]; readonly rewritten: boolean };

/** Runs the steps of a plan like the executor, and returns the effect of each on its table. */
async function observeSteps(
  yaml: string,
  policy: Parameters<World['plan']>[1],
): Promise<Map<Step, Observed>> {
  const plan = await world.plan(yaml, policy);
  expect(plan.problems).toEqual([]);
  const session = new pg.Client(world.ownerUrl);
  await session.connect();
  const seen = new Map<Step, Observed>();
  const oids = new Map<string | null, string | null>();
  try {
    for (const step of plan.steps) {
      if (step.sql.includes('concurrently')) {
        // A backfill has its own transactions, so it cannot be observed from this session.
        await session.query(step.sql);
        continue;
      }
      // A rename is planned under the old name, and the table keeps its OID.
      const oid = (await readOid(session, step.table)) ?? oids.get(step.table) ?? null;
      oids.set(step.table, oid);
      const before = await readFileNode(session, oid);
      await session.query('begin');
      await session.query(
        'set local search_path = public, extensions; set local check_function_bodies = off',
      );
      await session.query(step.sql);
      const lock = await strongestLock(session, oid);
      const otherLocks: Lock[] = [];
      for (const table of step.otherTables)
        otherLocks.push(await strongestLock(session, await readOid(session, table)));
      const after = await readFileNode(session, oid);
      await session.query('commit');
      seen.set(step, { lock, otherLocks, rewritten: before !== null && before !== after });
    }
  } finally {
    await session.end();
  }
  return seen;
}

/** Returns the strongest lock of the session on a table. */
async function strongestLock(session: pg.Client, oid: string | null): Promise<Lock> {
  const { rows } = await session.query<{ mode: string }>(
    'select distinct mode from pg_locks where pid = pg_backend_pid() and granted and relation = $1',
    [oid],
  );
  const modes = rows.map(({ mode }) => LOCKS_BY_STRENGTH.indexOf(mode.replace(/Lock$/, '') as Lock));
  return LOCKS_BY_STRENGTH[Math.max(0, ...modes)] ?? 'none';
}

async function readOid(session: pg.Client, table: string | null): Promise<string | null> {
  const { rows } = await session.query<{ oid: string }>(
    `select c.oid::text as oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname || '.' || c.relname = $1`,
    [table],
  );
  return rows[0]?.oid ?? null;
}

async function readFileNode(session: pg.Client, oid: string | null): Promise<string | null> {
  const { rows } = await session.query<{ file: string }>(
    'select relfilenode::text as file from pg_class where oid = $1',
    [oid],
  );
  return rows[0]?.file ?? null;
}

function expectAsPlanned(seen: ReadonlyMap<Step, Observed>): void {
  expect(
    [...seen].map(([step, { lock, otherLocks, rewritten }]) => ({
      step: step.summary,
      lock,
      otherLocks,
      rewrites: rewritten,
    })),
  ).toEqual(
    [...seen].map(([step]) => ({
      step: step.summary,
      lock: step.table === null ? 'none' : step.lock,
      otherLocks: step.otherTables.map(() => step.lock),
      rewrites: step.rewrites,
    })),
  );
}

const BEFORE = `
tables:
  teams:
    fields:
      - { name: id, type: integer, primary_key: true }
    rls: []
  people:
    fields:
      - { name: id, type: serial, primary_key: true }
      - { name: name, type: text, enum: [a, b], default: a }
      - { name: mail, type: varchar(20), unique: true }
      - { name: team, foreign_key: { references: teams.id } }
      - { name: amount, type: integer, required: true }
      - { name: image, type: text, ref: storage.images }
      - { name: gone, type: text, required: true }
    indexes: [{ columns: [amount] }]
    rls: [{ operations: [select], using: amount > 0 }]
  left:
    fields: [{ name: id, type: integer, primary_key: true }, { name: team, foreign_key: { references: teams.id } }]
rpc:
  one: { language: sql, volatility: stable, returns: { type: integer }, body: select 1 }
storage:
  images: {}
`;
const AFTER = `
tables:
  teams:
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: code, type: uuid, unique: true }
    rls: []
  persons:
    renamed_from: people
    fields:
      - { name: id, type: serial, primary_key: true }
      - { name: full_name, renamed_from: name, type: text, enum: [a, b, c], required: true, default: b }
      - { name: mail, type: text }
      - { name: team, foreign_key: { references: teams.id, on_delete: cascade } }
      - { name: amount, type: bigint, min: 0 }
      - { name: image, type: text, ref: storage.images, on_delete: cascade }
      - { name: score, type: integer, required: true, backfill: id * 2 }
      - { name: token, type: uuid, required: true, default: uuid_v4() }
      - { name: number, type: serial }
      - { name: seen, type: timestamptz, default: now() }
      - { name: lead, foreign_key: { references: teams.id } }
    indexes: [{ columns: [team, full_name] }, { columns: [score], where: score > 10 }]
    rls: [{ operations: [select, update], using: amount > 1 }]
  fresh:
    fields: [{ name: id, type: uuid, primary_key: true, default: uuid_v4() }]
    rls: []
rpc:
  one: { language: sql, volatility: stable, returns: { type: bigint }, body: select 1::bigint }
  heads: { language: sql, volatility: stable, returns: { type: setof persons }, body: select * from persons }
storage:
  images: { rls: [{ operations: [select], using: 'true' }] }
`;

async function fill(): Promise<void> {
  await world.settle(BEFORE);
  await world.sql(`insert into teams select n from generate_series(1, 5) n;
    insert into people (name, mail, team, amount, gone) select 'a', n, 1 + n % 5, n, 'x' from generate_series(1, 200) n;
      analyze people; analyze teams`);
}

test('the direct form has the planned locks', async () => {
  await fill();
  const seen = await observeSteps(AFTER, {});
  expectAsPlanned(seen);
  expect([...seen.values()].some((entry) => entry.rewritten)).toBe(true);
});

test('the form for a large table has the planned locks and rewrites nothing', async () => {
  await fill();
  const seen = await observeSteps(AFTER, { maxWriteBlockMs: 0 });
  expectAsPlanned(seen);
  expect([...seen.values()].some((entry) => entry.rewritten)).toBe(false);
  for (const [step, { lock }] of seen) {
    if (step.scans)
      expect([step.summary, LOCKS_BY_STRENGTH.indexOf(lock) < LOCKS_BY_STRENGTH.indexOf('Share')]).toEqual([
        step.summary,
        true,
      ]);
  }
});

test('a changed foreign key reads no rows under a lock that blocks readers', async () => {
  await fill();
  await world.sql(`insert into people (name, mail, team, amount, gone) select 'a', n, 1, n, 'x'
    from generate_series(1001, 2000) n;
    analyze people`);
  const changed = BEFORE.replace('references: teams.id }', 'references: teams.id, on_delete: cascade }');
  const seen = await observeSteps(changed, {});
  expectAsPlanned(seen);
  expect(
    [...seen].map(([{ summary, scans, otherTables }, { lock }]) => [summary, scans, lock, otherTables]),
  ).toEqual([
    ['foreign key people_team_fkey', false, 'AccessExclusive', ['public.teams']],
    ['foreign key team → teams.id on delete cascade', false, 'ShareRowExclusive', ['public.teams']],
    ['foreign key team: check rows', true, 'ShareUpdateExclusive', []],
  ]);
});

test.each([{}, { maxWriteBlockMs: 0 }])(
  'a check of a domain locks the tables that use it, with %o',
  async (policy) => {
    const file = (check: string): string => `
types:
  size: { domain: integer${check} }
tables:
  boxes:
    fields: [{ name: id, type: integer, primary_key: true }, { name: size, type: size }]
    rls: []
`;
    await world.settle(file(''));
    await world.sql('insert into boxes select n, n from generate_series(1, 200) n; analyze boxes');
    const seen = await observeSteps(file(', check: value > 0, not_null: true'), policy);
    expectAsPlanned(seen);
    expect([...seen].filter(([{ scans }]) => scans).map(([{ otherTables }]) => otherTables)).toEqual([
      ['public.boxes'],
      ['public.boxes'],
    ]);
  },
);

test('disabling row-level security has the planned locks', async () => {
  await fill();
  expectAsPlanned(
    await observeSteps(BEFORE.replace('    rls: [{ operations: [select], using: amount > 0 }]\n', ''), {
      allow: ['authz_open'],
    }),
  );
});
