// Tests crashes before each statement, concurrent starts, the return of an older file, and blocking readers. After
// each, one undisturbed run completes the migration, and no row is lost.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { checkPending } from '../../src/migrate/commands/plan.ts';
import { silentLog } from '../../src/log/log.ts';
import { LONG_PART, rounds } from '../support/rounds.ts';
import { parseConfig } from './parse-config.ts';
import { aWorld, type World } from './world.ts';
import { scaled } from '../support/run/scaled.ts';

const CHILD = fileURLToPath(new URL('crash-child.ts', import.meta.url));

let folder: string;
let world: World;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-crash-'));
});
afterAll(() => rm(folder, { recursive: true }));
beforeEach(async () => {
  world = await aWorld();
});
afterEach(() => world.close());

const BEFORE = `
tables:
  teams:
    fields:
      - { name: id, type: integer, primary_key: true }
    rls: []
  people:
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: name, type: text }
      - { name: team, type: integer }
      - { name: mail, type: text }
      - { name: old, type: text }
    rls: [{ operations: [select], using: name is not null }]
`;

const AFTER = `
tables:
  teams:
    fields:
      - { name: id, type: integer, primary_key: true }
    rls: []
  persons:
    renamed_from: people
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: full_name, renamed_from: name, type: text, required: true, check: length(full_name) > 0 }
      - { name: team, foreign_key: { references: teams.id } }
      - { name: mail, type: text, unique: true }
      - { name: token, type: uuid, required: true, default: uuid_v4() }
      - { name: score, type: integer, required: true, backfill: id * 2 }
    indexes:
      - { columns: [team, full_name] }
      - { columns: [score], where: score > 10 }
    rls: [{ operations: [select], using: full_name is not null and team > 0 }]
rpc:
  heads: { language: sql, volatility: stable, returns: { type: setof persons }, body: select * from persons }
`;

const ROWS = 400;

/** Kill before each statement in long runs, before every sixth in usual runs. */
const STRIDE = rounds(6, 1);
/** Each part of the long rounds starts at a different statement. */
const FIRST = 1 + (LONG_PART % STRIDE);

async function fillPeople(): Promise<void> {
  await world.settle(BEFORE);
  await world.sql(`insert into teams select n from generate_series(1, 5) n`);
  await world.sql(
    `insert into people select n, 'name ' || n, 1 + n % 5, 'mail ' || n, 'old ' || n from generate_series(1, ${ROWS}) n;
      analyze people`,
  );
}

/** Checks the final state of every row and of the schema. */
async function expectConverged(): Promise<void> {
  // With a write block of 0 ms every table counts as large.
  const outcome = await world.apply(AFTER, { maxWriteBlockMs: 0 });
  expect(outcome.kind, JSON.stringify(outcome.kind === 'refused' ? outcome.problems : '')).toMatch(
    /applied|unchanged/,
  );
  const plan = await world.plan(AFTER);
  expect(plan.steps.map((step) => step.sql)).toEqual([]);
  expect(
    await world.sql(`select count(*)::int as rows, count(distinct token)::int as tokens,
      bool_and(score = id * 2) as scores,
      bool_and(full_name = 'name ' || id) as names, bool_and(old = 'old ' || id) as kept from persons`),
  ).toEqual([{ rows: ROWS, tokens: ROWS, scores: true, names: true, kept: true }]);
  const leftovers = await world.sql(
    `select conname as name from pg_constraint where conname like 'svc\\_%' union all select relname from pg_class
      join pg_index on indexrelid = pg_class.oid where not indisvalid`,
  );
  expect(leftovers).toEqual([]);
}

async function forgetAll(): Promise<void> {
  await world.empty();
}

/** Changes the types of a key, of the columns that refer to it, and of a column with an index and a policy. */
const RETYPED = BEFORE.replace(
  'name: id, type: integer, primary_key: true }\n    rls: []',
  'name: id, type: bigint, primary_key: true }\n    rls: []',
)
  .replace('name: team, type: integer }', 'name: team, foreign_key: { references: teams.id } }')
  .replace(
    'name: old, type: text }',
    "name: old, type: integer, using: \"nullif(regexp_replace(old, '\\\\D', '', 'g'), '')::integer\", required: true }",
  )
  .replace(
    'name is not null }]',
    'name is not null and old > 0 and team > 0 }]\n    indexes: [{ columns: [old, name] }]',
  );

/** Temporary objects of an online type change. */
const TEMPORARY_OBJECTS = `select 'column ' || attname as name from pg_attribute
  where attname like 'svc\\_%' and not attisdropped
  and attrelid in (select oid from pg_class where relnamespace = 'public'::regnamespace)
  union all select 'trigger ' || tgname from pg_trigger
    where tgname like '~svc\\_%'
    and tgrelid in (select oid from pg_class where relnamespace = 'public'::regnamespace)
    union all select 'function ' || proname from pg_proc where proname like 'svc\\_n%'
  union all select 'check ' || conname from pg_constraint where conname like 'svc\\_%'
    union all select 'index ' || relname from pg_class where relname like 'svc\\_i%'`;

async function expectRetyped(child: string): Promise<void> {
  const outcome = await world.apply(RETYPED, { maxWriteBlockMs: 0 });
  expect(
    outcome.kind,
    `${JSON.stringify(outcome.kind === 'refused' ? outcome.problems : '')} ${child}`,
  ).toMatch(/applied|unchanged/);
  expect((await world.plan(RETYPED)).steps.map((step) => step.sql)).toEqual([]);
  expect(await world.sql(TEMPORARY_OBJECTS)).toEqual([]);
  expect(
    await world.sql(`select count(*)::int as rows, count(*) filter (where old = id)::int as before,
      count(*) filter (where old = 987654)::int as after,
      bool_and(name = 'name ' || id and team = 1 + id % 5) as rest, pg_typeof(min(old))::text as type,
        pg_typeof(min(team))::text as team from people`),
  ).toEqual([{ rows: ROWS, before: ROWS - 5, after: 5, rest: true, type: 'integer', team: 'bigint' }]);
  expect(await world.sql(`select indexdef from pg_indexes where tablename = 'people' order by 1`)).toEqual([
    { indexdef: 'CREATE INDEX people_old_name_idx ON public.people USING btree (old, name)' },
    { indexdef: 'CREATE UNIQUE INDEX people_pkey ON public.people USING btree (id)' },
  ]);
  await expect(world.sql(`insert into people (id, team, old) values (-1, 77, 1)`)).rejects.toThrow(
    /people_team_fkey/,
  );
}

type Child = { readonly signal: string | null; readonly out: string };

async function child(yaml: string, killAt?: number): Promise<Child> {
  const file = join(folder, `${Math.random()}.yaml`);
  await writeFile(file, yaml);
  return new Promise((resolve) => {
    const args = [CHILD, world.ownerUrl, file, ...(killAt === undefined ? [] : [String(killAt)])];
    execFile(process.execPath, args, (error, stdout, stderr) =>
      resolve({ signal: error?.signal ?? null, out: stdout + stderr }),
    );
  });
}

describe('kill -9', () => {
  test('before each statement, then one more start', { timeout: scaled(600_000) }, async () => {
    let killed = 0;
    for (let at = FIRST; ; at += STRIDE) {
      await fillPeople();
      const { signal, out } = await child(AFTER, at);
      if (signal === null) {
        expect(out).toContain('"applied"');
        await expectConverged();
        break;
      }
      killed += 1;
      await expectConverged();
      await forgetAll();
    }
    expect(killed).toBeGreaterThan(25 / STRIDE);
  });

  test('before each step of an online type change', { timeout: scaled(600_000) }, async () => {
    let killed = 0;
    for (let at = FIRST; ; at += STRIDE) {
      await fillPeople();
      await world.sql(
        `update people set mail = 'mail ' || id where id <= 10; comment on column people.id is 'number'`,
      );
      const { signal, out } = await child(RETYPED, at);
      // The application continues to write between the crash and the next start.
      await world.sql(`update people set old = '987654' where id > ${ROWS - 5}`);
      await expectRetyped(out);
      if (signal === null) break;
      killed += 1;
      await forgetAll();
    }
    expect(killed).toBeGreaterThan(15 / STRIDE);
  });

  test('ten times during a batched step, which updates each row once', async () => {
    const table = `tables:
  counters:
    fields: [{ name: id, type: integer, primary_key: true }, { name: n, type: integer, default: 0 }]
    rls: []
`;
    const sql = 'update counters set n = n + 1 from pg_sleep(0.02) where id between $1 and $2';
    const step = { name: 'count', sql, batch: { table: 'counters', size: 2 } };
    const yaml = `${table}migrations: { steps: ${JSON.stringify([step])} }\n`;
    await world.settle(table);
    await world.sql('insert into counters (id) select i from generate_series(1, 400) as i');
    const last = async (): Promise<number> =>
      Number((await world.sql('select progress from svc_meta.data_step'))[0]?.['progress'] ?? 0);
    for (let killed = 0; killed < 10; killed += 1) {
      const before = await last();
      const file = join(folder, 'batches.yaml');
      await writeFile(file, yaml);
      const process_ = spawn(process.execPath, [CHILD, world.ownerUrl, file], { stdio: 'ignore' });
      const ended = once(process_, 'exit');
      await expect.poll(last, { interval: 5 }).toBeGreaterThan(before);
      process_.kill('SIGKILL');
      expect(await ended).toEqual([null, 'SIGKILL']);
    }
    expect(await world.sql(`select state from svc_meta.data_step`)).toEqual([{ state: 'running' }]);
    await world.settle(yaml);
    expect(await world.sql('select n, count(*)::int as rows from counters group by n')).toEqual([
      { n: 1, rows: 400 },
    ]);
  });

  test('a lock that a killed process still holds does not count as a running instance', async () => {
    const stamped = `select 1 from svc_meta.stamp where not complete`;
    for (let at = 1; ; at += 1) {
      await fillPeople();
      const { signal } = await child(RETYPED, at);
      expect(signal).toBe('SIGKILL');
      await world.sql(`update people set old = '987654' where id > ${ROWS - 5}`);
      if ((await world.sql(stamped)).length > 0) break;
      await forgetAll();
    }
    const dying = new pg.Client({ connectionString: world.ownerUrl });
    await dying.connect();
    // Released when the server has detected the end of the process.
    await expect
      .poll(async () => (await dying.query(`select pg_try_advisory_lock(7566947, 3) as held`)).rows)
      .toEqual([{ held: true }]);
    const retyped = expectRetyped('');
    await expect
      .poll(() => world.sql(`select 1 from pg_locks where locktype = 'advisory' and objid = 2 and granted`))
      .toHaveLength(1);
    await dying.end();
    await retyped;
  });

  test('an abandoned type change leaves no temporary objects', async () => {
    await fillPeople();
    await child(RETYPED, 5);
    expect(await world.sql(TEMPORARY_OBJECTS)).not.toEqual([]);
    await world.settle(BEFORE, { maxWriteBlockMs: 0 });
    expect(await world.sql(TEMPORARY_OBJECTS)).toEqual([]);
    expect(
      await world.sql(`select count(*)::int as rows, bool_and(old = 'old ' || id) as kept from people`),
    ).toEqual([{ rows: ROWS, kept: true }]);
  });

  test('an incomplete index of a killed process is built again', async () => {
    await fillPeople();
    const yaml = BEFORE.replace('    rls: [{', '    indexes: [{ columns: [name] }]\n    rls: [{');
    // A duplicate makes a concurrent unique build fail, which leaves the same invalid index as a crash.
    await world.sql(`update people set mail = 'same' where id < 3`);
    const owner = new pg.Client(world.ownerUrl);
    await owner.connect();
    await owner.query(`create unique index concurrently people_name_idx on people (mail)`).catch(() => {});
    await owner.end();
    expect(
      await world.sql(`select indisvalid from pg_index where indexrelid = 'people_name_idx'::regclass`),
    ).toEqual([{ indisvalid: false }]);
    await world.settle(yaml, { maxWriteBlockMs: 0 });
    expect(
      await world.sql(`select indisvalid from pg_index where indexrelid = 'people_name_idx'::regclass`),
    ).toEqual([{ indisvalid: true }]);
  });
});

describe('concurrent instances', () => {
  test('eight instances apply once', { timeout: scaled(300_000) }, async () => {
    await fillPeople();
    const ran = await Promise.all(Array.from({ length: 8 }, () => child(AFTER)));
    const kinds = ran.map((run) => JSON.parse(run.out).kind as string).sort();
    // On a busy machine the indexes may still be incomplete. The other instances then leave them to the applying
    // instance.
    expect(kinds.map((kind) => (kind === 'elsewhere' ? 'unchanged' : kind))).toEqual([
      'applied',
      ...Array.from({ length: 7 }, () => 'unchanged'),
    ]);
    expect(await world.sql(`select count(*)::int as runs from svc_meta.run where status = 'done'`)).toEqual([
      { runs: 2 },
    ]);
    await expectConverged();
  });

  test('an instance with a replaced file does not migrate backwards', async () => {
    await world.apply(BEFORE);
    await world.apply(AFTER);
    const late = await world.apply(BEFORE, { allowRollback: false });
    expect(late.kind).toBe('superseded');
    expect(await world.sql(`select to_regclass('persons') is not null as there`)).toEqual([{ there: true }]);
    const pending = await checkPending({ owner: world.owner, config: parseConfig(BEFORE), log: silentLog });
    expect(pending.kind).toBe('superseded');
  });

  test('a deployment number takes precedence over the history', async () => {
    await world.apply(BEFORE, { deploySeq: 7 });
    expect((await world.apply(AFTER, { deploySeq: 6, allowRollback: false })).kind).toBe('superseded');
    expect((await world.apply(AFTER, { deploySeq: 8, allowRollback: false })).kind).toBe('applied');
  });
});

describe('locks', () => {
  test('a blocking reader delays the change, but not other readers', async () => {
    await world.settle(BEFORE);
    const reader = new pg.Client(world.url);
    await reader.connect();
    await reader.query('begin');
    await reader.query('select from people');
    const change = world.apply(BEFORE.replace('name: old, type: text', 'name: old, type: text, default: x'));
    const waits: number[] = [];
    const until = Date.now() + 1_500;
    while (Date.now() < until) {
      const started = Date.now();
      await world.sql('select count(*) from people');
      waits.push(Date.now() - started);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await reader.query('commit');
    await reader.end();
    expect((await change).kind).toBe('applied');
    // Each attempt waits at most 300 ms for the lock.
    expect(Math.max(...waits)).toBeLessThan(scaled(1_000));
  });

  test('an unavailable lock is reported with the blocking session', async () => {
    await world.settle(BEFORE);
    const reader = new pg.Client({ connectionString: world.url, application_name: 'long-report' });
    await reader.connect();
    await reader.query('begin');
    await reader.query('select from people');
    const [problem] = await world.refusal(
      BEFORE.replace('name: old, type: text', 'name: old, type: text, default: x'),
      { lockBudgetMs: 600 },
    );
    await reader.end();
    expect(problem).toMatch(
      /^MIG-401 .*could not lock public\.people within 0\.6 s; blocked by: pid \d+ \(long-report/,
    );
  });

  test('a large table is changed without a scan or a build under a strong lock', async () => {
    await fillPeople();
    const plan = await world.plan(AFTER, { maxWriteBlockMs: 0 });
    const strong = plan.steps.filter(
      (step) => step.lock === 'AccessExclusive' && (step.scans || step.rewrites),
    );
    expect(strong.map((step) => step.summary)).toEqual([]);
    expect(
      plan.steps.filter((step) => step.lane !== 'metadata').map((step) => `${step.lane} ${step.summary}`),
    ).toMatchInlineSnapshot(`
      [
        "online fill token",
        "online fill score",
        "online column full_name required: check rows",
        "online column full_name required",
        "online column token required: guard for new rows",
        "online fill token of rows written during the backfill",
        "online column token required: check rows",
        "online column token required",
        "online column score required: guard for new rows",
        "online fill score of rows written during the backfill",
        "online column score required: check rows",
        "online column score required",
        "online check of full_name: check rows",
        "online foreign key team: check rows",
        "concurrent unique (mail): build index",
        "concurrent unique (mail)",
        "background index (team, full_name)",
        "background index (score) where score > 10",
      ]
    `);
  });
});

test('a shutdown cancels a background build, and the next start finishes it', async () => {
  await fillPeople();
  const yaml = BEFORE.replace('    rls: [{', '    indexes: [{ columns: [name] }]\n    rls: [{');
  // A concurrent build waits for all older transactions.
  const reader = new pg.Client(world.url);
  await reader.connect();
  await reader.query('begin isolation level repeatable read');
  await reader.query('select from people');
  const stop = new AbortController();
  const done = world.apply(yaml, { maxWriteBlockMs: 0 }, { signal: stop.signal });
  await expect
    .poll(
      async () =>
        (
          await world.sql(
            `select from pg_stat_activity where query like 'create index concurrently%'
              and datname = current_database()`,
          )
        ).length,
    )
    .toBe(1);
  stop.abort();
  await done;
  expect(await world.sql(`select complete from svc_meta.stamp`)).toEqual([{ complete: false }]);
  await reader.query('commit');
  await reader.end();
  await world.settle(yaml, { maxWriteBlockMs: 0 });
  expect(await world.sql(`select complete from svc_meta.stamp`)).toEqual([{ complete: true }]);
});
