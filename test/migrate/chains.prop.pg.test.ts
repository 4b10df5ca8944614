// Applies random chains of five to ten files to tables with rows. After each file the next plan is empty, no value is
// lost (including values of retired objects that return), and the database equals a fresh build of the file. A refused
// file has a documented code and changes nothing. SVC_CHAINS sets the number of chains and SVC_CHAIN_SEED the first
// seed. Every third chain treats every table as large.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { MigrateOptions } from '../../src/migrate/migrate.ts';
import { firstSeed, rounds } from '../support/rounds.ts';
import { firstLink, nextLink, SPREAD_ROWS, sqlType, type Link } from './random-chain.ts';
import {
  Random,
  SPREAD,
  storedName,
  toYaml,
  type RandomFile,
  type RandomSpread,
  type RandomTable,
} from './random-file.ts';
import { catalogText, fillRows, readRows, structure } from './random-world.ts';
import { aWorld, type World } from './world.ts';
import { scaled } from '../support/run/scaled.ts';

const CHAINS = rounds(8, 100, 'SVC_CHAINS');
const FIRST_SEED = firstSeed(1, 100, 'SVC_CHAIN_SEED');
/** Every n-th file of a chain is compared with a fresh build. */
const FRESH_EVERY = 3;
/** Codes of refusals because of rows or hazards. Other codes are faults of the engine or of the generator. */
const DOCUMENTED = /^MIG-(116|20[1-8]|30[12])$/;

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

/** Permissions to change objects that a materialized view reads. */
const STORED = Array.from({ length: 500 }, (_, id) => `rewrite=views.${storedName({ id })}`);

const tally = { applied: 0, refused: 0 };

describe(`${CHAINS} random chains`, () => {
  for (let seed = FIRST_SEED; seed < FIRST_SEED + CHAINS; seed += 1) {
    test(`chain ${seed}`, { timeout: scaled(300_000) }, () => followChain(seed));
  }
  test('most files are applied', () => {
    expect(tally.applied).toBeGreaterThan(tally.refused * 4);
  });
});

async function followChain(seed: number): Promise<void> {
  const random = new Random(seed);
  const length = 5 + random.below(6);
  const policy: MigrateOptions['policy'] = {
    allow: ['authz_open', ...STORED],
    ...(seed % 3 === 0 ? { maxWriteBlockMs: 0 } : {}),
  };
  const kept = new KeptRows();
  const served: RandomFile[] = [];
  const story: string[] = [];
  await world.empty();
  for (let index = 0; index < length; index += 1) {
    const link = served.length === 0 ? firstLink(random) : nextLink(served, random);
    try {
      if (await follow(link, policy, kept)) {
        served.push(link.file);
        story.push(`--- ${link.edit}\n${toYaml(link.file)}`);
        if ((seed + index) % FRESH_EVERY === 0) await expectLikeFresh(link.file);
      }
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      throw new Error(
        `chain ${seed}, file ${index + 1}${policy.maxWriteBlockMs === 0 ? ' (large)' : ''}, ` +
          `${link.edit}: ${message}\n${story.join('')}\n--- then ${link.edit}\n${toYaml(link.file)}`,
        { cause: error },
      );
    }
  }
}

/** Returns false if the file was refused with a documented code. */
async function follow(link: Link, policy: MigrateOptions['policy'], kept: KeptRows): Promise<boolean> {
  const yaml = toYaml(link.file);
  const before = await catalogText(world);
  const outcome = await world.apply(yaml, policy);
  if (outcome.kind === 'refused') {
    for (const problem of outcome.problems)
      expect(problem.code, `${problem.at}: ${problem.message}`).toMatch(DOCUMENTED);
    expect(await catalogText(world), 'a refusal changes nothing').toBe(before);
    tally.refused += 1;
    return false;
  }
  const plan = await world.plan(yaml, policy);
  expect(plan.steps.map((step) => step.sql)).toEqual([]);
  expect(plan.problems.map((problem) => problem.message)).toEqual([]);
  tally.applied += 1;
  await kept.compare(link.file);
  return true;
}

type KnownColumn = { type: string; values: Map<string, unknown> };

/** The last known values of every row, including retired tables and columns. */
class KeptRows {
  readonly #tables = new Map<number, Map<number, KnownColumn>>();
  /** Partition of each row of the partitioned table. */
  readonly #homes = new Map<number, string>();

  async compare(file: RandomFile): Promise<void> {
    const added = file.tables.filter((table) => !this.#tables.has(table.id));
    if (added.length > 0) await fillRows(world, file, added);
    const rows = await readRows(world, file);
    for (const table of file.tables) await this.#compareTable(file, table, rows[`t${table.id}`] ?? []);
    if (file.spread) await this.#compareSpread(file.spread);
  }

  /** Rows are visible while their partition is declared, and again when it returns. */
  async #compareSpread({ parts, rest }: RandomSpread): Promise<void> {
    for (let part = 0; part < SPREAD_ROWS; part += 1) {
      const home = parts.includes(part) ? String(part) : 'rest';
      if (this.#homes.has(part) || (home === 'rest' && !rest)) continue;
      await world.sql(`insert into ${SPREAD} (id, part) values ($1, $2)`, [part + 1, part]);
      this.#homes.set(part, home);
    }
    const isListed = (home: string): boolean => (home === 'rest' ? rest : parts.includes(Number(home)));
    const expected = [...this.#homes].filter(([, home]) => isListed(home)).map(([part]) => part);
    const found = await world.sql(`select part from ${SPREAD} order by part`);
    expect(found.map((row) => row['part'])).toEqual(expected.sort((a, b) => a - b));
  }

  async #compareTable(
    file: RandomFile,
    table: RandomTable,
    rows: readonly Record<string, unknown>[],
  ): Promise<void> {
    const known = this.#tables.get(table.id) ?? new Map<number, KnownColumn>();
    this.#tables.set(table.id, known);
    const number = table.columns.find((column) => column.fixed);
    if (!number) throw new Error(`rows of ${table.name} cannot be distinguished`);
    for (const column of table.columns) {
      const values = new Map(rows.map((row) => [String(row[`c${number.id}`]), row[`c${column.id}`]]));
      const type = sqlType(file, column);
      const was = known.get(column.id);
      known.set(column.id, { type, values });
      if (!was) continue;
      const expected = was.type === type ? was.values : await castAll(was, type);
      for (const [row, value] of expected) {
        // A declared backfill fills nulls on purpose.
        if (column.backfill && value === null) expected.set(row, values.get(row));
      }
      expect(
        Object.fromEntries(values),
        `values of ${table.name}.${column.name} (${was.type}, now ${type})`,
      ).toEqual(Object.fromEntries(expected));
    }
  }
}

async function castAll(was: KnownColumn, type: string): Promise<Map<string, unknown>> {
  const keys = [...was.values.keys()];
  const rows = await world.sql(
    `select v.value::${was.type}::${type}::text as value from jsonb_array_elements_text($1) with
      ordinality as v(value, n) order by n`,
    [JSON.stringify([...was.values.values()])],
  );
  return new Map(keys.map((key, index) => [key, rows[index]?.['value']]));
}

async function expectLikeFresh(file: RandomFile): Promise<void> {
  await fresh.empty();
  await fresh.apply(toYaml(file), { allow: ['authz_open'] });
  const [here, there] = [await structure(world, file), await structure(fresh, file)];
  expect({
    'not in a fresh build': here.filter((line) => !there.includes(line)),
    'only in a fresh build': there.filter((line) => !here.includes(line)),
  }).toEqual({ 'not in a fresh build': [], 'only in a fresh build': [] });
}
