// Random file A with rows, then B, then A again: the database follows each time, a second plan is empty, and no
// row of anything that stayed is touched. SVC_ROUND_TRIPS sets how many pairs, SVC_ROUND_TRIP_SEED where to start.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { MigrateOptions } from '../../src/migrate/migrate.ts';
import { quoteIdent, quoteLiteral } from '../../src/postgres/sql.ts';
import {
  edited,
  Random,
  randomFile,
  toYaml,
  valuesOf,
  wayBack,
  type RandomFile,
  type RandomTable,
} from './random-file.ts';
import { aWorld, type World } from './world.ts';

const PAIRS = Number(process.env['SVC_ROUND_TRIPS'] ?? 500);
const FIRST_SEED = Number(process.env['SVC_ROUND_TRIP_SEED'] ?? 1);
const PER_TEST = 5;
const ROWS = 3;
/** Every table counts as a large one: what can be done online is. */
const LARGE = { maxWriteBlockMs: 0 };
/** How often the result is compared with a fresh build of the same file, by eyes that share no code with the engine. */
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
    test(`seeds ${seeds[0]} to ${seeds.at(-1)}`, { timeout: 600_000 }, async () => {
      for (const seed of seeds) await roundTrip(seed);
    });
  }
  test('most of them were not refused', () => {
    expect(tally.applied).toBeGreaterThan(tally.refused * 4);
  });
});

async function roundTrip(seed: number): Promise<void> {
  const random = new Random(seed);
  const a = randomFile(random);
  const b = edited(a, random);
  let now = a;
  try {
    await reset(world);
    await world.settle(toYaml(a));
    if (seed % FRESH_EVERY === 0) await expectLikeFresh(a);
    await fillRows(a);
    const before = await readRows(a);
    now = b;
    const policy = { allow: ['authz_open'], ...(seed % 2 === 0 ? LARGE : {}) };
    if (!(await tryApply(b, before, a, policy))) return;
    if (seed % FRESH_EVERY === 0) await expectLikeFresh(b);
    expect(await readSurvivors(a, b)).toEqual(onlySurvivors(before, a, b));
    await expectCasts(before, a, b);
    now = wayBack(a, b);
    if (!(await tryApply(now, null, a, policy))) return;
    const after = await readRows(a);
    expect(withoutRetyped(after, a, b)).toEqual(withoutRetyped(before, a, b));
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new Error(`seed ${seed}: ${message}\n--- A\n${toYaml(a)}\n--- then\n${toYaml(now)}`, {
      cause: error,
    });
  }
}

/** A column of another type holds what the server's own cast makes of each former value. */
async function expectCasts(before: Rows, a: RandomFile, b: RandomFile): Promise<void> {
  const after = await readRows(b);
  for (const table of b.tables) {
    const old = a.tables.find((one) => one.id === table.id);
    for (const column of table.columns) {
      const was = old?.columns.find((one) => one.id === column.id);
      if (!was || was.type === column.type || column.primaryKey || column.backfill) continue;
      const values = (before[`t${table.id}`] ?? []).map((row) => row[`c${column.id}`]);
      const cast = await world.sql(
        `select v.value::${was.type}::${column.type}::text as value from jsonb_array_elements_text($1) with ordinality as v(value, n) order by n`,
        [JSON.stringify(values)],
      );
      expect((after[`t${table.id}`] ?? []).map((row) => row[`c${column.id}`])).toEqual(
        cast.map((one) => one['value']),
      );
    }
  }
}

// The fresh one is built statement by statement, where the other had its tables made in one go.
async function expectLikeFresh(file: RandomFile): Promise<void> {
  await reset(fresh);
  const policy = { allow: ['authz_open'] };
  await fresh.apply(toYaml(file), policy, { onStatement: () => {} });
  expect(await structure(world, file)).toEqual(await structure(fresh, file));
  // Without a stamp nothing is taken as proven: the server reads every declaration once more.
  await fresh.sql('truncate svc_meta.stamp');
  const plan = await fresh.plan(toYaml(file), policy);
  expect(plan.steps.map((step) => step.sql)).toEqual([]);
}

/** What the server says about the declared things, without labels, positions and retired leftovers. */
async function structure(where: World, file: RandomFile): Promise<string[]> {
  const tables = file.tables.map((table) => nameOf(table));
  const columns = file.tables.flatMap((table) =>
    table.columns.map((column) => `${nameOf(table)} ${column.name}`),
  );
  const rows = await where.sql(
    `with t as (select x::regclass as oid, x as name from unnest($1::text[]) x)
     select 'column ' || t.name || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull || ' '
         || coalesce(regexp_replace(pg_get_expr(d.adbin, d.adrelid), '^nextval.*', 'nextval'), '') as line
       from t join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
       left join pg_attrdef d on d.adrelid = t.oid and d.adnum = a.attnum where t.name || ' ' || a.attname = any ($2)
     union all select 'constraint ' || t.name || ' ' || pg_get_constraintdef(k.oid) from t join pg_constraint k on k.conrelid = t.oid and k.contype <> 'n' and k.convalidated
     union all select 'index ' || t.name || ' ' || regexp_replace(pg_get_indexdef(i.indexrelid), 'INDEX .* ON', 'INDEX ON') from t join pg_index i on i.indrelid = t.oid and i.indisvalid
     union all select 'policy ' || t.name || ' ' || p.cmd || p.permissive || p.roles::text || coalesce(p.qual, '') || coalesce(p.with_check, '')
       from t join pg_class c on c.oid = t.oid join pg_policies p on p.tablename = c.relname and p.schemaname = c.relnamespace::regnamespace::text
     union all select 'table ' || t.name || ' ' || c.relrowsecurity || (select string_agg(g::text, ',' order by g::text) from unnest(c.relacl) g) from t join pg_class c on c.oid = t.oid
     union all select 'function ' || p.proname || pg_get_function_arguments(p.oid) || pg_get_function_result(p.oid) || p.prosrc || p.prosecdef || p.provolatile::text || coalesce(p.proconfig::text, '') || p.proacl::text
       from pg_proc p where p.pronamespace = 'public'::regnamespace
     union all select 'storage ' || p.cmd || coalesce(p.qual, '') || coalesce(p.with_check, '') from pg_policies p where p.schemaname = 'storage' and p.policyname like 'svc\\_%'
     order by 1`,
    [tables, columns],
  );
  return rows.map((row) => String(row['line']));
}

async function tryApply(
  file: RandomFile,
  rows: unknown,
  model: RandomFile,
  policy: MigrateOptions['policy'],
): Promise<boolean> {
  const yaml = toYaml(file);
  const stamp = await catalogText();
  const outcome = await world.apply(yaml, policy);
  if (outcome.kind === 'refused') {
    // Only rows may be the reason, and nothing may have changed.
    for (const one of outcome.problems)
      expect(one.code, `${one.at}: ${one.message}`).toMatch(/^MIG-(20[1-5]|208)$/);
    expect(await catalogText()).toBe(stamp);
    if (rows !== null) expect(await readRows(model)).toEqual(rows);
    tally.refused += 1;
    return false;
  }
  expect(outcome.kind).toMatch(/applied|unchanged/);
  const plan = await world.plan(yaml, policy);
  expect(plan.steps.map((step) => step.sql)).toEqual([]);
  tally.applied += 1;
  return true;
}

async function reset(world: World): Promise<void> {
  await world.sql(`
    do $$ declare one record; begin
      for one in select policyname from pg_policies where schemaname = 'storage' and policyname like 'svc\\_%' loop
        execute format('drop policy %I on storage.objects', one.policyname);
      end loop;
    end $$;
    set client_min_messages = error;
    drop schema if exists public, crm cascade;
    create schema public authorization svc_owner;
    grant usage on schema public to anon, authenticated, service_role;
    truncate svc_meta.run, svc_meta.step, svc_meta.object, svc_meta.stamp`);
}

function nameOf(table: RandomTable): string {
  return `${quoteIdent(table.schema)}.${quoteIdent(table.name)}`;
}

async function fillRows(file: RandomFile): Promise<void> {
  for (const table of file.tables) {
    for (let row = 0; row < ROWS; row += 1) {
      const values = table.columns.flatMap((column): (readonly [string, string | null])[] => {
        if (column.type.endsWith('serial') || column.reference) return [];
        if (column.primaryKey && column.type === 'uuid') return [];
        // Unique columns get each value once at most.
        if (column.unique && row >= valuesOf(column).length)
          return column.required ? [[column.name, null]] : [];
        if (!column.required && !column.primaryKey && row === 2) return [];
        return [
          [
            column.name,
            column.primaryKey ? String(row + 1) : (valuesOf(column)[row % valuesOf(column).length] ?? ''),
          ],
        ];
      });
      if (values.some(([, value]) => value === null)) continue;
      const names = values.map(([name]) => quoteIdent(name));
      await world.sql(
        names.length === 0
          ? `insert into ${nameOf(table)} default values`
          : `insert into ${nameOf(table)} (${names.join(', ')}) values (${values.map(([, value]) => quoteLiteral(value ?? '')).join(', ')})`,
      );
    }
  }
  for (const table of file.tables) {
    for (const column of table.columns) {
      const target = file.tables.find((one) => one.id === column.reference?.table);
      const key = target?.columns.find((one) => one.id === column.reference?.column);
      if (!target || !key) continue;
      await world.sql(
        `update ${nameOf(table)} set ${quoteIdent(column.name)} = (select ${quoteIdent(key.name)} from ${nameOf(target)} limit 1)`,
      );
    }
  }
}

type Rows = Record<string, Record<string, unknown>[]>;

/** Every table's rows, keyed by table id and column id, so that renames do not matter. */
async function readRows(file: RandomFile): Promise<Rows> {
  const rows: Rows = {};
  for (const table of file.tables) {
    const columns = table.columns
      .map((column) => `'c${column.id}', ${quoteIdent(column.name)}::text`)
      .join(', ');
    const key = table.columns
      .filter((column) => column.primaryKey)
      .map((column) => `${quoteIdent(column.name)}::text`);
    const found = await world.sql(
      `select jsonb_build_object(${columns}) as row from ${nameOf(table)} order by ${key.join(', ')}`,
    );
    rows[`t${table.id}`] = found.map((one) => one['row'] as Record<string, unknown>);
  }
  return rows;
}

function survivors(a: RandomFile, b: RandomFile): RandomFile {
  const file = structuredClone(b);
  file.tables = file.tables.filter((table) => a.tables.some((one) => one.id === table.id));
  for (const table of file.tables) {
    const old = a.tables.find((one) => one.id === table.id);
    table.columns = table.columns.filter((column) =>
      // A key keeps its text whatever kind of integer it is.
      old?.columns.some((one) => one.id === column.id && (one.type === column.type || column.primaryKey)),
    );
  }
  return file;
}

async function readSurvivors(a: RandomFile, b: RandomFile): Promise<Rows> {
  return withoutFilled(await readRows(survivors(a, b)), a, b);
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

/** A declared backfill changes nulls on purpose. */
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
    const old = a.tables.find((one) => one.id === table.id);
    for (const column of table.columns) {
      const was = old?.columns.find((one) => one.id === column.id);
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

async function catalogText(): Promise<string> {
  const rows = await world.sql(`
    select md5(string_agg(line, E'\\n' order by line)) as text from (
      select attrelid::text || attname || atttypid || atttypmod || attnotnull as line from pg_attribute join pg_class c on c.oid = attrelid where relnamespace in (select oid from pg_namespace where nspname in ('public', 'crm'))
      union all select oid || conname || pg_get_constraintdef(oid) from pg_constraint where connamespace in (select oid from pg_namespace where nspname in ('public', 'crm'))
      union all select oid || polname || coalesce(pg_get_expr(polqual, polrelid), '') || coalesce(pg_get_expr(polwithcheck, polrelid), '') from pg_policy
      union all select oid || proname || prosrc from pg_proc where pronamespace in (select oid from pg_namespace where nspname in ('public', 'crm'))
      union all select identity || state || definition::text from svc_meta.object
    ) lines`);
  return JSON.stringify(rows);
}
