// What the plan says about locks and rewriting is what the server does: each step of every kind is run, and
// pg_locks and the table's file are looked at while its transaction is open.
import pg from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Step } from '../../src/migrate/plan/step.ts';
import { aWorld, type World } from './world.ts';

let world: World;
beforeEach(async () => {
  world = await aWorld();
});
afterEach(() => world.close());

const STRENGTH = [
  'none',
  'AccessShare',
  'RowExclusive',
  'ShareUpdateExclusive',
  'Share',
  'ShareRowExclusive',
  'AccessExclusive',
] as const;

type Seen = { readonly lock: (typeof STRENGTH)[number]; readonly rewritten: boolean };

/** The steps of a plan one after the other, each as the executor sends it, and what each did to its table. */
async function watch(yaml: string, policy: Parameters<World['plan']>[1]): Promise<Map<Step, Seen>> {
  const plan = await world.plan(yaml, policy);
  expect(plan.problems).toEqual([]);
  const session = new pg.Client(world.ownerUrl);
  await session.connect();
  const seen = new Map<Step, Seen>();
  const oids = new Map<string | null, string | null>();
  try {
    for (const step of plan.steps) {
      if (step.sql.includes('concurrently')) {
        // It cannot be looked at from inside: its own transactions come and go.
        await session.query(step.sql);
        continue;
      }
      // A rename is said under the old name, and the table keeps its number.
      const oid = (await oidOf(session, step.table)) ?? oids.get(step.table) ?? null;
      oids.set(step.table, oid);
      const before = await fileOf(session, oid);
      await session.query('begin');
      await session.query(
        'set local search_path = public, extensions; set local check_function_bodies = off',
      );
      await session.query(step.sql);
      const locks = await session.query<{ mode: string }>(
        'select distinct mode from pg_locks where pid = pg_backend_pid() and granted and relation = $1',
        [oid],
      );
      const after = await fileOf(session, oid);
      await session.query('commit');
      const modes = locks.rows.map((row) => STRENGTH.indexOf(row.mode.replace(/Lock$/, '') as Seen['lock']));
      seen.set(step, {
        lock: STRENGTH[Math.max(0, ...modes)] ?? 'none',
        rewritten: before !== null && before !== after,
      });
    }
  } finally {
    await session.end();
  }
  return seen;
}

async function oidOf(session: pg.Client, table: string | null): Promise<string | null> {
  const { rows } = await session.query<{ oid: string }>(
    `select c.oid::text as oid from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname || '.' || c.relname = $1`,
    [table],
  );
  return rows[0]?.oid ?? null;
}

async function fileOf(session: pg.Client, oid: string | null): Promise<string | null> {
  const { rows } = await session.query<{ file: string }>(
    'select relfilenode::text as file from pg_class where oid = $1',
    [oid],
  );
  return rows[0]?.file ?? null;
}

function expectAsSaid(seen: ReadonlyMap<Step, Seen>): void {
  expect(
    [...seen].map(([step, found]) => ({ step: step.summary, lock: found.lock, rewrites: found.rewritten })),
  ).toEqual(
    [...seen].map(([step]) => ({
      step: step.summary,
      lock: step.table === null ? 'none' : step.lock,
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
    insert into people (name, mail, team, amount, gone) select 'a', n, 1 + n % 5, n, 'x' from generate_series(1, 200) n; analyze people; analyze teams`);
}

test('the direct form', async () => {
  await fill();
  const seen = await watch(AFTER, {});
  expectAsSaid(seen);
  expect([...seen.values()].some((one) => one.rewritten)).toBe(true);
});

test('the form of a large table, which rewrites nothing', async () => {
  await fill();
  const seen = await watch(AFTER, { maxWriteBlockMs: 0 });
  expectAsSaid(seen);
  expect([...seen.values()].some((one) => one.rewritten)).toBe(false);
  for (const [step, { lock }] of seen) {
    if (step.scans)
      expect([step.summary, STRENGTH.indexOf(lock) < STRENGTH.indexOf('Share')]).toEqual([
        step.summary,
        true,
      ]);
  }
});

test('row-level security off', async () => {
  await fill();
  expectAsSaid(
    await watch(BEFORE.replace('    rls: [{ operations: [select], using: amount > 0 }]\n', ''), {
      allow: ['authz_open'],
    }),
  );
});
