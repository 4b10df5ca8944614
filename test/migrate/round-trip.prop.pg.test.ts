// Applies a random file A with rows, then B, then A again. Each time the second plan is empty, and rows of kept
// objects do not change. SVC_ROUND_TRIPS sets the number of pairs and SVC_ROUND_TRIP_SEED the first seed.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { MigrateOptions } from '../../src/migrate/migrate.ts';
import { firstSeed, rounds } from '../support/rounds.ts';
import { edited, Random, randomFile, toYaml, wayBack, type RandomFile } from './random-file.ts';
import { catalogText, fillRows, readRows, structure, type Rows } from './random-world.ts';
import { aWorld, type World } from './world.ts';
import { scaled } from '../support/run/scaled.ts';

const PAIRS = rounds(30, 500, 'SVC_ROUND_TRIPS');
const FIRST_SEED = firstSeed(1, 500, 'SVC_ROUND_TRIP_SEED');
const PER_TEST = 5;
/** Every table counts as large, so that changes are done online if possible. */
const LARGE = { maxWriteBlockMs: 0 };
/** Every n-th result is compared with a fresh build of the same file, by code that is independent of the engine. */
const FRESH_EVERY = 5;

let world: World;
let fresh: World;
beforeAll(async () => {
  world = await aWorld();
  fresh = await aWorld();
});
afterAll(async () => {
  await world.close();
  await fresh.close();
});

const tally = { applied: 0, refused: 0 };

describe(`${PAIRS} random pairs`, () => {
  for (let first = 0; first < PAIRS; first += PER_TEST) {
    const seeds = Array.from({ length: Math.min(PER_TEST, PAIRS - first) }, (_, n) => FIRST_SEED + first + n);
    test(`seeds ${seeds[0]} to ${seeds.at(-1)}`, { timeout: scaled(600_000) }, async () => {
      for (const seed of seeds) await roundTrip(seed);
    });
  }
  test('most files are applied', () => {
    expect(tally.applied).toBeGreaterThan(tally.refused * 4);
  });
});

async function roundTrip(seed: number): Promise<void> {
  const random = new Random(seed);
  const a = randomFile(random);
  const b = edited(a, random);
  let now = a;
  try {
    await world.empty();
    await world.settle(toYaml(a));
    if (seed % FRESH_EVERY === 0) await expectLikeFresh(a);
    await fillRows(world, a);
    const before = await readRows(world, a);
    now = b;
    const policy = { allow: ['authz_open'], ...(seed % 2 === 0 ? LARGE : {}) };
    if (!(await tryApply(b, before, a, policy))) return;
    if (seed % FRESH_EVERY === 0) await expectLikeFresh(b);
    expect(await readSurvivors(a, b)).toEqual(onlySurvivors(before, a, b));
    await expectCasts(before, a, b);
    now = wayBack(a, b);
    if (!(await tryApply(now, null, a, policy))) return;
    const after = await readRows(world, a);
    expect(withoutRetyped(after, a, b)).toEqual(withoutRetyped(before, a, b));
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new Error(`seed ${seed}: ${message}\n--- A\n${toYaml(a)}\n--- then\n${toYaml(now)}`, {
      cause: error,
    });
  }
}

/** Expects each value of a changed column to equal the result of the cast by PostgreSQL. */
async function expectCasts(before: Rows, a: RandomFile, b: RandomFile): Promise<void> {
  const after = await readRows(world, b);
  for (const table of b.tables) {
    const old = a.tables.find((candidate) => candidate.id === table.id);
    for (const column of table.columns) {
      const was = old?.columns.find((candidate) => candidate.id === column.id);
      if (!was || was.type === column.type || column.primaryKey || column.backfill) continue;
      const values = (before[`t${table.id}`] ?? []).map((row) => row[`c${column.id}`]);
      const cast = await world.sql(
        `select v.value::${was.type}::${column.type}::text as value from jsonb_array_elements_text($1) with
          ordinality as v(value, n) order by n`,
        [JSON.stringify(values)],
      );
      expect((after[`t${table.id}`] ?? []).map((row) => row[`c${column.id}`])).toEqual(
        cast.map((row) => row['value']),
      );
    }
  }
}

// The fresh database is built by single statements, and the other creates its tables in one batch.
async function expectLikeFresh(file: RandomFile): Promise<void> {
  await fresh.empty();
  const policy = { allow: ['authz_open'] };
  await fresh.apply(toYaml(file), policy, { onStatement: () => {} });
  expect(await structure(world, file)).toEqual(await structure(fresh, file));
  // Without a stamp no declaration counts as proven, so PostgreSQL parses all of them again.
  await fresh.sql('truncate svc_meta.stamp');
  const plan = await fresh.plan(toYaml(file), policy);
  expect(plan.steps.map((step) => step.sql)).toEqual([]);
}

async function tryApply(
  file: RandomFile,
  rows: unknown,
  model: RandomFile,
  policy: MigrateOptions['policy'],
): Promise<boolean> {
  const yaml = toYaml(file);
  const stamp = await catalogText(world);
  const outcome = await world.apply(yaml, policy);
  if (outcome.kind === 'refused') {
    // Only rows may cause a refusal, and nothing may have changed.
    for (const problem of outcome.problems)
      expect(problem.code, `${problem.at}: ${problem.message}`).toMatch(/^MIG-(20[1-5]|208)$/);
    expect(await catalogText(world)).toBe(stamp);
    if (rows !== null) expect(await readRows(world, model)).toEqual(rows);
    tally.refused += 1;
    return false;
  }
  expect(outcome.kind).toMatch(/applied|unchanged/);
  const plan = await world.plan(yaml, policy);
  expect(plan.steps.map((step) => step.sql)).toEqual([]);
  tally.applied += 1;
  return true;
}

function survivors(a: RandomFile, b: RandomFile): RandomFile {
  const file = structuredClone(b);
  file.tables = file.tables.filter((table) => a.tables.some((candidate) => candidate.id === table.id));
  for (const table of file.tables) {
    const old = a.tables.find((candidate) => candidate.id === table.id);
    table.columns = table.columns.filter((column) =>
      // The text of a key is the same for all integer types.
      old?.columns.some(
        (candidate) => candidate.id === column.id && (candidate.type === column.type || column.primaryKey),
      ),
    );
  }
  return file;
}

async function readSurvivors(a: RandomFile, b: RandomFile): Promise<Rows> {
  return withoutFilled(await readRows(world, survivors(a, b)), a, b);
}

function onlySurvivors(rows: Rows, a: RandomFile, b: RandomFile): Rows {
  const kept: Rows = {};
  for (const table of survivors(a, b).tables) {
    const ids = table.columns.map((column) => `c${column.id}`);
    kept[`t${table.id}`] = (rows[`t${table.id}`] ?? []).map((row) =>
      Object.fromEntries(ids.map((id) => [id, row[id]])),
    );
  }
  return withoutFilled(kept, a, b);
}

/** Removes columns with a declared backfill, which changes nulls. */
function withoutFilled(rows: Rows, a: RandomFile, b: RandomFile): Rows {
  const filled = new Set(
    b.tables.flatMap((table) =>
      table.columns.filter((column) => column.backfill).map((column) => `c${column.id}`),
    ),
  );
  void a;
  return without(rows, filled);
}

function withoutRetyped(rows: Rows, a: RandomFile, b: RandomFile): Rows {
  const changed = new Set<string>();
  for (const table of b.tables) {
    const old = a.tables.find((candidate) => candidate.id === table.id);
    for (const column of table.columns) {
      const was = old?.columns.find((candidate) => candidate.id === column.id);
      if (column.backfill || (was && was.type !== column.type)) changed.add(`c${column.id}`);
    }
  }
  return without(rows, changed);
}

function without(rows: Rows, columns: ReadonlySet<string>): Rows {
  return Object.fromEntries(
    Object.entries(rows).map(([table, list]) => [
      table,
      list.map((row) => Object.fromEntries(Object.entries(row).filter(([column]) => !columns.has(column)))),
    ]),
  );
}
