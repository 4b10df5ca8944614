// Tests each limit of `migrations:` in a situation in which it takes effect.
import pg from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { silentLog } from '../../src/log/log.ts';
import { migrate, type MigrationOutcome } from '../../src/migrate/migrate.ts';
import { parseConfig } from './parse-config.ts';
import { aWorld, type World } from './world.ts';

let world: World;
beforeEach(async () => {
  world = await aWorld();
});
afterEach(() => world.close());

const file = (people: string, limits: string, more = ''): string => `
migrations: { ${limits} }
tables:
  people:
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: name, type: ${people} }
${more}    rls: []
`;

async function fill(): Promise<void> {
  await world.settle(file('text', ''));
  await world.sql(`insert into people select n, n::text from generate_series(1, 3000) n; analyze people`);
}

function start(yaml: string): Promise<MigrationOutcome> {
  return migrate({
    owner: world.owner,
    config: parseConfig(yaml),
    log: silentLog,
    policy: { allowRollback: true },
  });
}

/** Opens a transaction for which every concurrent index build must wait. */
async function openOldTransaction(): Promise<pg.Client> {
  const reader = new pg.Client(world.url);
  await reader.connect();
  await reader.query('begin isolation level repeatable read');
  await reader.query('select from people');
  return reader;
}

test('boot_budget: a start does not wait longer for a unique index, which is still built', async () => {
  await fill();
  const reader = await openOldTransaction();
  const yaml = file('text, unique: true', 'max_write_block: 1ms, boot_budget: 50ms');
  const outcome = await start(yaml);
  expect(outcome.kind).toBe('applied');
  expect(await world.sql('select complete from svc_meta.stamp')).toEqual([{ complete: false }]);
  expect(await world.sql(`select from pg_constraint where conname = 'people_name_key'`)).toEqual([]);
  // Another start leaves the build to the first.
  expect((await start(yaml)).kind).toBe('elsewhere');
  await reader.query('commit');
  await reader.end();
  expect(outcome.kind === 'applied' && (await outcome.background)).toEqual([]);
  expect(await world.sql('select complete from svc_meta.stamp')).toEqual([{ complete: true }]);
  expect(
    await world.sql(`select convalidated as there from pg_constraint where conname = 'people_name_key'`),
  ).toEqual([{ there: true }]);
});

test('boot_budget: a new table exists and is recorded in its printed form while long steps continue', async () => {
  await fill();
  const reader = await openOldTransaction();
  const notes = `  notes:
    fields: [{ name: id, type: int, primary_key: true },
      { name: at, type: timestamptz, default: now(), check: at > '2000-01-01' }]
`;
  const yaml = `${file('text, unique: true', 'max_write_block: 1ms, boot_budget: 50ms')}${notes}`;
  const outcome = await start(yaml);
  expect(await world.sql('select complete from svc_meta.stamp')).toEqual([{ complete: false }]);
  const known = `select declared_hash is not null as known, definition -> 'canonical' as print
    from svc_meta.object where identity = 'table public.notes'`;
  const [row] = await world.sql(known);
  expect(row).toMatchObject({
    known: true,
    print: {
      columns: [
        ['integer', null],
        ['timestamp with time zone', 'now()'],
      ],
      checks: [expect.stringContaining("'2000-01-01 00:00:00+00'::timestamp with time zone")],
    },
  });
  await reader.query('commit');
  await reader.end();
  expect(outcome.kind === 'applied' && (await outcome.background)).toEqual([]);
  expect(await world.sql('select complete from svc_meta.stamp')).toEqual([{ complete: true }]);
  await world.settle(yaml);
  expect(await world.sql(known)).toEqual([row]);
});

test('boot_budget: a failure in the background is reported, and the next start completes the step', async () => {
  await fill();
  const reader = await openOldTransaction();
  const yaml = file('text, unique: true', 'max_write_block: 1ms, boot_budget: 50ms');
  const outcome = await start(yaml);
  await expect
    .poll(() =>
      world.sql(
        `select pg_terminate_backend(pid) as ended from pg_stat_activity
          where query like 'create unique index concurrently%' and datname = current_database()`,
      ),
    )
    .toEqual([{ ended: true }]);
  const problems = outcome.kind === 'applied' ? await outcome.background : [];
  await reader.query('commit');
  await reader.end();
  expect(problems.map((problem) => `${problem.code}: ${problem.message}`)).toEqual([
    expect.stringMatching(/^MIG-502: .*terminat/),
  ]);
  expect(await world.sql(`select complete from svc_meta.stamp`)).toEqual([{ complete: false }]);
  await world.settle(yaml);
  expect(await world.sql(`select complete from svc_meta.stamp`)).toEqual([{ complete: true }]);
});

test('boot_budget: a start waits for steps within the budget', async () => {
  await fill();
  const outcome = await start(file('text, unique: true', 'max_write_block: 1ms, boot_budget: 60s'));
  expect(outcome.kind).toBe('applied');
  expect(await world.sql('select complete from svc_meta.stamp')).toEqual([{ complete: true }]);
});

test('max_write_block: selects between the direct and the online form', async () => {
  await fill();
  const lanes = async (limit: string): Promise<string[]> => {
    const plan = await world.plan(
      file(
        'varchar(9)',
        `max_write_block: ${limit}`,
        '      - { name: rank, type: integer, unique: true }\n',
      ),
    );
    expect(plan.problems).toEqual([]);
    return [...new Set(plan.steps.map((step) => step.lane))];
  };
  expect(await lanes('10s')).toEqual(['metadata']);
  expect(await lanes('1ms')).toEqual(['metadata', 'concurrent', 'shadow', 'cutover']);
});

test('lock_timeout limits how long others wait behind the migration, and lock_budget ends its retries', async () => {
  await fill();
  const reader = new pg.Client({ connectionString: world.url, application_name: 'report' });
  await reader.connect();
  await reader.query('begin; select from people');
  const yaml = file('text, default: x', 'lock_timeout: 40ms, lock_budget: 400ms');
  const outcome = start(yaml);
  await expect
    .poll(
      async () =>
        (await world.sql(`select from pg_locks where not granted and relation = 'people'::regclass`)).length,
      { interval: 5 },
    )
    .toBe(1);
  // Queued behind a waiting lock. Without the lock timeout it would wait for the end of the reader.
  expect(await world.sql('select count(*)::int as rows from people')).toEqual([{ rows: 3000 }]);
  const refused = await outcome;
  await reader.end();
  expect(
    refused.kind === 'refused' && refused.problems.map((problem) => `${problem.code} ${problem.message}`),
  ).toEqual([
    expect.stringMatching(
      /^MIG-401 could not lock public\.people within 0\.4 s; blocked by: pid \d+ \(report/,
    ),
  ]);
});

const WITHOUT = `
migrations: { drop: retire }
tables:
  people:
    fields:
      - { name: id, type: integer, primary_key: true }
    rls: []
`;

test('drop: retire keeps, refuse refuses, drop removes and needs a permission unless the column is empty', async () => {
  await fill();
  const gone = (how: string): string => WITHOUT.replace('drop: retire', `drop: ${how}`);
  expect((await start(gone('refuse'))).kind).toBe('refused');
  expect(await world.refusal(gone('drop'))).toEqual([
    expect.stringMatching(/^MIG-302 .*column name dropped: it holds 3,000 values/),
  ]);
  expect(await world.sql('select count(name)::int as values from people')).toEqual([{ values: 3000 }]);
  await world.settle(gone('drop'), { allow: ['data_loss=tables.people.fields.name'] });
  expect(
    await world.sql(
      `select attname from pg_attribute where attrelid = 'people'::regclass and attnum > 0 and not attisdropped`,
    ),
  ).toEqual([{ attname: 'id' }]);
  await world.settle(file('text', ''));
  await world.settle(gone('drop'));
  expect(
    await world.sql(
      `select attname from pg_attribute where attrelid = 'people'::regclass and attnum > 0 and not attisdropped`,
    ),
  ).toEqual([{ attname: 'id' }]);
  expect(await world.refusal('migrations: { drop: drop }')).toEqual([
    expect.stringMatching(/^MIG-302 .*table people dropped: it holds 3,000 rows/),
  ]);
  await world.settle('migrations: { drop: drop }', { allow: ['data_loss=tables.people'] });
  expect(await world.sql(`select to_regclass('people') as there`)).toEqual([{ there: null }]);
  expect(await world.sql(`select identity from svc_meta.object`)).toEqual([]);
});

test('drop: drop keeps columns that undeclared objects use', async () => {
  await fill();
  await world.sql('create view names as select name from people');
  const problems = await world.refusal(WITHOUT.replace('retire', 'drop'), { allow: ['data_loss'] });
  expect(problems).toEqual([expect.stringMatching(/^MIG-304 .*view names/)]);
});
