// Tests objects that only SQL files can declare: aggregates, statistics, range types, rules, operators, casts,
// collations and text search.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { prepareToRead } from '../../src/config/read/read-parts.ts';
import { silentLog } from '../../src/log/log.ts';
import { planMigration } from '../../src/migrate/commands/plan.ts';
import type { MigrateOptions } from '../../src/migrate/migrate.ts';
import { readUnmanagedObjects } from '../../src/migrate/state/unmanaged.ts';
import { toModel } from '../../src/migrate/schema/declared.ts';
import { pulled } from './pulled.ts';
import { shuffled } from './shuffled.ts';
import { aWorld, type World } from './world.ts';

let world: World;
let folder: string;
beforeAll(async () => {
  world = await aWorld();
  folder = mkdtempSync(join(tmpdir(), 'svc-statements-'));
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await world.close();
});
beforeEach(() => world.empty());

const TABLES = `
tables:
  films:
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: title, type: text, collate: nocase }
      - { name: length, type: integer, check: "length === 7 or length <> 7" }
      - { name: shown, type: timerange }
      - { name: about, type: text }
      - { name: words, type: tsvector, generated: "to_tsvector('public.plain', about)" }
    rls: []
`;
const WITH_GENERATED = TABLES.replace(
  '    rls: []',
  '      - { name: same, type: boolean, generated: length === 7 }\n    rls: []',
);

const STATEMENTS = {
  double: `create function double_it(a integer, b integer) returns integer language sql immutable
    as $$ select a + 2 * b $$`,
  aggregate: `create aggregate public.doubled(integer) (sfunc = double_it, stype = integer, initcond = '0')`,
  ordered: `create aggregate middle(float8 order by integer)
    (sfunc = mid_step, stype = float8[], finalfunc = mid_end, finalfunc_extra)`,
  step: `create function mid_step(a float8[], b integer) returns float8[] language sql immutable
    as 'select a || b::float8'`,
  end: `create function mid_end(a float8[], at float8, b integer) returns float8 language sql immutable
    as 'select a[1] + at'`,
  view: `create view totals as select doubled(length) as total,
    count(*) filter (where shown && timerange('10:00', '12:00')) as early from films`,
  statistics: `create statistics film_stats (dependencies) on title, length from films`,
  expressions: `create statistics long_films on (length > 10) from public.films;
    alter statistics long_films set statistics 50`,
  diff: `create function time_diff(x time, y time) returns float8 language sql immutable strict
    as 'select extract(epoch from (x - y))::float8'`,
  range: `create type timerange as range (subtype = time, subtype_diff = time_diff)`,
  domain: `create domain opening as timerange check (not isempty(value))`,
  rule: `create or replace rule keep as on delete to films where old.length > 100 do instead nothing`,
  viewRule: `create rule into_films as on insert to totals do instead insert into films (id, length)
    values (new.early, new.total)`,
  equals: `create function seven(a integer, b integer) returns boolean language sql immutable as 'select a = b'`,
  operator: `create operator === (function = seven, leftarg = integer, rightarg = integer, commutator = ===,
    negator = !==)`,
  differs: `create function not_seven(a integer, b integer) returns boolean language sql immutable as 'select a <> b'`,
  negator: `create operator public.!== (function = public.not_seven, leftarg = integer, rightarg = int,
    negator = operator(public.===))`,
  mood: `create type mood as enum ('low', 'high')`,
  toMood: `create function to_mood(a integer) returns mood language sql immutable
    as $$ select case when a > 0 then 'high' else 'low' end::mood $$`,
  cast: `create cast (integer as mood) with function to_mood(integer) as assignment`,
  collation: `create collation nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`,
  dictionary: `create text search dictionary plain_words (template = simple, stopwords = english)`,
  configuration: `create text search configuration plain (parser = default)`,
  mapping: `alter text search configuration plain add mapping for asciiword, word with plain_words, simple`,
  comments: `comment on aggregate doubled(int) is 'Twice each';
    comment on rule keep on public.films is 'Long ones stay';
    comment on operator === (integer, integer) is 'Equal'; comment on cast (int as mood) is 'Above zero';
    comment on type timerange is 'Of a day';
    comment on statistics film_stats is 'For the list'; comment on collation nocase is 'As people sort';
    comment on text search configuration plain is 'No stems'`,
  grant: `grant execute on function doubled(integer) to authenticated`,
} as const;

async function loadStatements(statements: readonly string[], tables = TABLES): Promise<Config> {
  rmSync(join(folder, 'sql'), { recursive: true, force: true });
  mkdirSync(join(folder, 'sql'));
  const middle = Math.ceil(statements.length / 2);
  writeFileSync(join(folder, 'sql', 'a.sql'), statements.slice(0, middle).join(';\n'));
  writeFileSync(join(folder, 'sql', 'b.sql'), statements.slice(middle).join(';\n'));
  const source = { name: 'svc.yaml', directory: folder, text: `version: 1\nsql: sql/*.sql\n${tables}` };
  await prepareToRead(source);
  const loaded = loadConfig(source, { variables: {} });
  if (!loaded.ok) throw new Error(loaded.mistakes.map(({ message }) => message).join('\n'));
  return loaded.config;
}

async function summaries(config: Config): Promise<string[]> {
  const planned = await planMigration({ owner: world.owner, config, log: silentLog });
  if (planned.kind === 'refused') throw new Error(JSON.stringify(planned.problems, null, 1));
  return planned.plan.steps.map(({ sign, summary }) => `${sign} ${summary}`);
}

/** Applies the statements and expects an empty plan. */
async function settled(
  statements: readonly string[],
  tables = TABLES,
  policy?: MigrateOptions['policy'],
): Promise<Config> {
  const config = await loadStatements(statements, tables);
  const outcome = await world.apply('', policy, { config });
  if (outcome.kind !== 'applied')
    throw new Error(JSON.stringify(outcome.kind === 'refused' ? outcome.problems : outcome, null, 1));
  expect(await summaries(config)).toEqual([]);
  return config;
}

async function refusal(statements: readonly string[], tables = TABLES): Promise<string[]> {
  const outcome = await world.apply('', undefined, { config: await loadStatements(statements, tables) });
  if (outcome.kind !== 'refused') throw new Error(outcome.kind);
  return outcome.problems.map(({ code, place, message }) => `${code} ${place} ${message}`);
}

const ALL = Object.values(STATEMENTS);
const without = (...names: ReadonlyArray<keyof typeof STATEMENTS>): string[] =>
  Object.entries(STATEMENTS).flatMap(([name, text]) =>
    names.some((candidate) => candidate === name) ? [] : [text],
  );
const instead = (name: keyof typeof STATEMENTS, text: string): string[] =>
  Object.entries(STATEMENTS).map(([one, found]) => (one === name ? text : found));

describe.each([0, 1, 2])('all kinds in some order (%i)', (seed) => {
  test('are created and work, and the second plan is empty', async () => {
    const config = await settled(seed === 0 ? ALL : shuffled(ALL, seed * 7919), WITH_GENERATED);
    await world.sql(
      `insert into films (id, title, length, shown, about) values (1, 'The house', 7, '[10:30,11:00)', 'The house'), (2,
        'A HOUSE', 110, '[13:00,14:00)', '')`,
    );
    expect(await world.sql('select total, early::int from totals')).toEqual([{ total: 234, early: 1 }]);
    expect(await world.sql(`select title from films where title = 'a house'`)).toEqual([
      { title: 'A HOUSE' },
    ]);
    expect(
      await world.sql(`select id from films where same and words @@ to_tsquery('plain', 'house')`),
    ).toEqual([{ id: 1 }]);
    expect(await world.sql(`select middle(1.5) within group (order by length) as m from films`)).toEqual([
      { m: 8.5 },
    ]);
    await world.sql('delete from films');
    expect(await world.sql('select id from films')).toEqual([{ id: 2 }]);
    expect(
      await world.owner.session((session) => readUnmanagedObjects(session, toModel(config), ['public'])),
    ).toEqual([]);
  });
});

const one = async (query: string): Promise<unknown> => Object.values((await world.sql(query))[0] ?? {})[0];

describe('rights', () => {
  test('an aggregate can be executed only by granted roles', async () => {
    await settled(ALL);
    const canExecute = (role: string): Promise<unknown> =>
      one(`select has_function_privilege('${role}', 'doubled(int)', 'execute')`);
    expect([
      await canExecute('authenticated'),
      await canExecute('anon'),
      await canExecute('service_role'),
    ]).toEqual([true, false, false]);
    await world.sql('grant execute on function doubled(int) to public');
    await settled(without('grant'));
    expect(await canExecute('authenticated')).toBe(false);
  });

  test('a missing role is reported', async () => {
    const grant = 'grant execute on function doubled(integer) to nosuch';
    expect(await refusal(instead('grant', grant))).toEqual([
      expect.stringMatching(/^MIG-114 sql\/a.sql:\d+.*nosuch/),
    ]);
  });
});

const CHANGES: ReadonlyArray<readonly [keyof typeof STATEMENTS, string, string, unknown]> = [
  [
    'aggregate',
    `create aggregate doubled(integer) (sfunc = double_it, stype = integer, initcond = '5')`,
    'select total::int from totals',
    19,
  ],
  [
    'operator',
    'create operator === (function = seven, leftarg = integer, rightarg = integer, negator = !==)',
    `select oprcom::int from pg_operator where oprname = '==='`,
    0,
  ],
  [
    'rule',
    'create rule keep as on delete to films do instead nothing',
    `select count(*)::int from pg_rules where rulename = 'keep' and definition not like '%length%'`,
    1,
  ],
  [
    'viewRule',
    'create rule into_films as on insert to totals do also notify inserted',
    `select count(*)::int from pg_rules
      where rulename = 'into_films' and definition like '%ALSO%' or definition like '%NOTIFY%'`,
    1,
  ],
  [
    'statistics',
    'create statistics film_stats (ndistinct) on title, length from films',
    `select stxkind[1]::text from pg_statistic_ext where stxname = 'film_stats'`,
    'd',
  ],
  [
    'expressions',
    'create statistics long_films on (length > 10) from public.films',
    `select coalesce((to_jsonb(s) ->> 'stxstattarget')::int, -1) from pg_statistic_ext s where stxname = 'long_films'`,
    -1,
  ],
  [
    'cast',
    'create cast (integer as mood) with function to_mood(integer) as implicit',
    `select castcontext::text from pg_cast where castfunc = 'to_mood'::regproc`,
    'i',
  ],
  [
    'view',
    'create view totals as select doubled(length) as total, count(*) as early, max(length) as most from films',
    'select most from totals',
    7,
  ],
  [
    'comments',
    `comment on aggregate doubled(int) is 'Other'`,
    `select obj_description('doubled(int)'::regprocedure) || coalesce(obj_description('timerange'::regtype), '')`,
    'Other',
  ],
];

describe('a change', () => {
  // Two parts, so that each stays within the time limit on a slow machine.
  test.each([0, 1])('of any kind is applied and reverted (%i)', async (half) => {
    await settled(ALL);
    await world.sql(`insert into films (id, title, length) values (1, 'x', 7)`);
    for (const [name, text, query, result] of CHANGES.filter((_change, n) => n % 2 === half)) {
      await settled(instead(name, text));
      expect.soft(await one(query), name).toEqual(result);
    }
    await settled(ALL);
    expect(await one('select count(*)::int from films')).toBe(1);
  });

  test('of an object that a column type uses is refused', async () => {
    await settled(ALL);
    const range = 'create type timerange as range (subtype = time)';
    expect((await refusal(instead('range', range))).join('\n')).toMatch(
      /MIG-304 sql\/a.sql:\d+:\d+ column shown of table films/,
    );
    const collation = `create collation nocase (provider = icu, locale = 'und')`;
    expect((await refusal(instead('collation', collation))).join('\n')).toMatch(
      /MIG-304 .*column title of table films/,
    );
  });

  test('of a function creates the aggregate and the operator that call it again', async () => {
    await settled(ALL);
    const changed = without('double', 'aggregate', 'equals').concat(
      `create function double_it(a bigint, b integer) returns bigint language sql immutable as $$ select a + 2 * b $$`,
      `create aggregate doubled(integer) (sfunc = double_it, stype = bigint, initcond = '0')`,
      `create function seven(a integer, n integer) returns boolean language sql immutable as 'select a = n'`,
    );
    await settled(changed);
    await world.sql(`insert into films (id, length) values (1, 7)`);
    expect(await one('select total::int from totals')).toBe(14);
    await settled(ALL);
  });

  test('of the type of a column keeps its rules and statistics', async () => {
    await settled(ALL);
    const bigger = TABLES.replace(
      '{ name: length, type: integer, check: "length === 7 or length <> 7" }',
      '{ name: length, type: bigint }',
    );
    const statements = instead('view', 'create view totals as select 1 as total, 2 as early from films');
    await settled(statements, bigger);
    expect(await one(`select count(*)::int from pg_rules where rulename in ('keep', 'into_films')`)).toBe(2);
    expect(await one('select count(*)::int from pg_statistic_ext')).toBe(2);
    await world.sql(
      'insert into films (id, length) select n, n from generate_series(1, 100) n; analyze films',
    );
    // With a write block of 0 ms every table counts as large.
    await settled(statements, bigger.replace('type: bigint', 'type: numeric'), { maxWriteBlockMs: 0 });
    expect(await one(`select count(*)::int from pg_rules where rulename = 'keep'`)).toBe(1);
    expect(await one('select count(*)::int from pg_statistic_ext')).toBe(2);
  });

  test('of the name of its table is adopted', async () => {
    await settled(ALL);
    const movies = TABLES.replace('  films:\n', '  movies:\n    renamed_from: films\n');
    const statements = ALL.map((text) => text.replaceAll(/\bfilms\b/g, 'movies'));
    expect((await summaries(await loadStatements(statements, movies))).join('\n')).not.toMatch(
      /rule|statistics/,
    );
    await settled(statements, movies);
    expect(await one(`select count(*)::int from pg_rules where tablename = 'movies'`)).toBe(1);
  });

  test('of the name of its table does not keep a rule that is removed in the same file', async () => {
    await settled(ALL);
    const movies = TABLES.replace('  films:\n', '  movies:\n    renamed_from: films\n');
    const left = ALL.filter((text) => !/\brule\b/.test(text)).map((text) =>
      text.replaceAll(/\bfilms\b/g, 'movies'),
    );
    await settled(left, movies);
    expect(await one(`select count(*)::int from pg_rules where tablename = 'movies'`)).toBe(0);
  });
});

describe('a removed object', () => {
  test('is dropped', async () => {
    await settled(ALL);
    await settled(
      [STATEMENTS.range, STATEMENTS.diff, STATEMENTS.dictionary],
      TABLES.replaceAll(/, collate: nocase|, check: "[^"]*"/g, '').replace(/ {6}- \{ name: words.*\n/g, ''),
    );
    expect(
      await world.sql(`select 'aggregate' from pg_aggregate where aggfnoid::oid >= 16384 union all select 'operator'
        from pg_operator where oprnamespace = 'public'::regnamespace
        union all select 'statistics' from pg_statistic_ext union all select 'rule' from pg_rules
          where tablename = 'films' union all select 'cast' from pg_cast where casttarget = to_regtype('mood')
        union all select 'collation' from pg_collation where collnamespace = 'public'::regnamespace`),
    ).toEqual([]);
    expect(
      await one(
        `select string_agg(identity, ';' order by identity) from svc_meta.object where kind = 'statement'`,
      ),
    ).toBe(
      'statement retired collation public.nocase;statement retired text search configuration ' +
        'public.plain;statement text search dictionary plain_words;statement type timerange',
    );
  });

  test('is kept while a retired column uses it, and dropped afterwards', async () => {
    await settled(ALL);
    const gone = TABLES.replace(/ {6}- \{ name: shown.*\n/, '');
    const statements = without('range', 'diff', 'domain', 'view', 'viewRule', 'comments').concat(
      STATEMENTS.diff,
    );
    await settled(statements, gone);
    expect(await one(`select to_regtype('timerange') is not null`)).toBe(true);
    await world.sql('alter table films drop column shown');
    await settled(statements, gone);
    expect(await one(`select to_regtype('timerange') is null`)).toBe(true);
  });

  test('is refused while an undeclared object uses it', async () => {
    await settled(ALL);
    await world.sql(
      `create view theirs as select doubled(length) from films;
        create view equal as select id from films where id === 2`,
    );
    expect((await refusal(without('aggregate', 'view', 'viewRule', 'grant', 'comments'))).join('\n')).toMatch(
      /^MIG-304 .*view theirs/,
    );
    const tables = TABLES.replace(/, check: "[^"]*"/, '');
    expect((await refusal(without('operator', 'negator', 'comments'), tables)).join('\n')).toMatch(
      /^MIG-304 .*view equal/,
    );
    await world.sql('drop view theirs, equal');
    await settled(without('aggregate', 'view', 'viewRule', 'grant', 'comments'));
  });
});

const BY_HAND = [
  ['rule', 'create or replace rule keep as on delete to films do instead nothing'],
  ['rule', 'alter table films disable rule keep'],
  ['statistics', 'alter statistics long_films set statistics 7'],
  ['statistics', 'drop statistics film_stats'],
  ['text search', 'alter text search configuration plain drop mapping for word'],
  [
    'aggregate',
    `create or replace aggregate doubled(integer) (sfunc = double_it, stype = integer, initcond = '1')`,
  ],
  ['aggregate', `comment on aggregate doubled(integer) is 'Mine'`],
  ['cast', 'drop cast (integer as mood)'],
] as const;

test('manual changes are drift and are reverted', async () => {
  const config = await settled(ALL);
  for (const [what, text] of BY_HAND) {
    await world.sql(text);
    expect((await summaries(config)).join('\n'), text).toContain(what);
    await settled(ALL);
  }
});

test('a pulled file contains the same statements', async () => {
  await settled(ALL);
  const file = await pulled(world);
  expect(file).toContain('statements:');
  expect(file).not.toContain('Not in this file');
  const planned = await world.plan(file);
  expect(planned.steps.map(({ summary }) => summary)).toEqual([]);
  await world.empty();
  await world.settle(file);
  expect(await pulled(world)).toBe(file);
});

test('a mistake is reported at its position', async () => {
  const wrong = `create aggregate broken(integer) (sfunc = double_it, stype = integer, finalfunc = nowhere)`;
  expect(await refusal([...ALL, wrong])).toEqual([
    expect.stringMatching(/^MIG-101 sql\/b.sql:\d+:1 function nowhere\(integer\) does not exist/),
  ]);
  expect(
    await refusal(
      [
        STATEMENTS.double,
        STATEMENTS.aggregate,
        `create view totals as select doubled(1)`,
        'create cast (text as integer) without function',
      ],
      '',
    ),
  ).toEqual([expect.stringMatching(/MIG-101 .*must be owner of type text or type integer/)]);
});
