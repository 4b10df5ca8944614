// Disasters: the process dies before any statement, many start at once, an older file comes back, a reader is in
// the way. Each time one undisturbed run converges, and no row is lost.
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
import { rounds } from '../support/rounds.ts';
import { configOf } from './config-of.ts';
import { aWorld, type World } from './world.ts';

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

/** Before each statement in the long run, before every sixth in the usual one. */
const STRIDE = rounds(6, 1);

async function fillPeople(): Promise<void> {
  await world.settle(BEFORE);
  await world.sql(`insert into teams select n from generate_series(1, 5) n`);
  await world.sql(
    `insert into people select n, 'name ' || n, 1 + n % 5, 'mail ' || n, 'old ' || n from generate_series(1, ${ROWS}) n; analyze people`,
  );
}

/** What every row must be in the end, whatever happened on the way. */
async function expectConverged(): Promise<void> {
  // Large forms everywhere: with a write block of nothing, every table is a large one.
  const outcome = await world.apply(AFTER, { maxWriteBlockMs: 0 });
  expect(outcome.kind, JSON.stringify(outcome.kind === 'refused' ? outcome.problems : '')).toMatch(
    /applied|unchanged/,
  );
  const plan = await world.plan(AFTER);
  expect(plan.steps.map((step) => step.sql)).toEqual([]);
  expect(
    await world.sql(`select count(*)::int as rows, count(distinct token)::int as tokens, bool_and(score = id * 2) as scores,
      bool_and(full_name = 'name ' || id) as names, bool_and(old = 'old ' || id) as kept from persons`),
  ).toEqual([{ rows: ROWS, tokens: ROWS, scores: true, names: true, kept: true }]);
  const leftovers = await world.sql(
    `select conname as name from pg_constraint where conname like 'svc\\_%' union all select relname from pg_class join pg_index on indexrelid = pg_class.oid where not indisvalid`,
  );
  expect(leftovers).toEqual([]);
}

async function forgetAll(): Promise<void> {
  await world.empty();
}

/** A key, what points at it, and a column with an index and a policy change their type in one file. */
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

/** Whatever a type change has beside the declared things. */
const BESIDE = `select 'column ' || attname as name from pg_attribute where attname like 'svc\\_%' and not attisdropped and attrelid in (select oid from pg_class where relnamespace = 'public'::regnamespace)
  union all select 'trigger ' || tgname from pg_trigger where tgname like '~svc\\_%' union all select 'function ' || proname from pg_proc where proname like 'svc\\_n%'
  union all select 'check ' || conname from pg_constraint where conname like 'svc\\_%' union all select 'index ' || relname from pg_class where relname like 'svc\\_i%'`;

async function expectRetyped(child: string): Promise<void> {
  const outcome = await world.apply(RETYPED, { maxWriteBlockMs: 0 });
  expect(
    outcome.kind,
    `${JSON.stringify(outcome.kind === 'refused' ? outcome.problems : '')} ${child}`,
  ).toMatch(/applied|unchanged/);
  expect((await world.plan(RETYPED)).steps.map((step) => step.sql)).toEqual([]);
  expect(await world.sql(BESIDE)).toEqual([]);
  expect(
    await world.sql(`select count(*)::int as rows, count(*) filter (where old = id)::int as before, count(*) filter (where old = 987654)::int as after,
      bool_and(name = 'name ' || id and team = 1 + id % 5) as rest, pg_typeof(min(old))::text as type, pg_typeof(min(team))::text as team from people`),
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
  test('before each statement, then one more start', { timeout: 600_000 }, async () => {
    let killed = 0;
    for (let at = 1; ; at += STRIDE) {
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

  test('before each step of a type change beside the old column', { timeout: 600_000 }, async () => {
    let killed = 0;
    for (let at = 1; ; at += STRIDE) {
      await fillPeople();
      await world.sql(
        `update people set mail = 'mail ' || id where id <= 10; comment on column people.id is 'number'`,
      );
      const { signal, out } = await child(RETYPED, at);
      // Between the crash and the next start the service goes on writing.
      await world.sql(`update people set old = '987654' where id > ${ROWS - 5}`);
      await expectRetyped(out);
      if (signal === null) break;
      killed += 1;
      await forgetAll();
    }
    expect(killed).toBeGreaterThan(15 / STRIDE);
  });

  test('ten times in the middle of a batched step, which comes to each row once', async () => {
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

  test('a lock that the killed process holds a moment longer is not taken for an instance at work', async () => {
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
    // Free as soon as the server has noticed that the process is gone.
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

  test('a type change given up half way leaves nothing behind', async () => {
    await fillPeople();
    await child(RETYPED, 5);
    expect(await world.sql(BESIDE)).not.toEqual([]);
    await world.settle(BEFORE, { maxWriteBlockMs: 0 });
    expect(await world.sql(BESIDE)).toEqual([]);
    expect(
      await world.sql(`select count(*)::int as rows, bool_and(old = 'old ' || id) as kept from people`),
    ).toEqual([{ rows: ROWS, kept: true }]);
  });

  test('an index half built by the dead is built again', async () => {
    await fillPeople();
    const yaml = BEFORE.replace('    rls: [{', '    indexes: [{ columns: [name] }]\n    rls: [{');
    // A duplicate makes a concurrent unique build fail, which leaves the same invalid index as a crash does.
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

describe('many at once', () => {
  test('eight instances apply once', { timeout: 300_000 }, async () => {
    await fillPeople();
    const ran = await Promise.all(Array.from({ length: 8 }, () => child(AFTER)));
    const kinds = ran.map((one) => JSON.parse(one.out).kind as string).sort();
    // On a busy machine the indexes may still be in the making: then the others leave them to the one that applied.
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
    const pending = await checkPending({ owner: world.owner, config: configOf(BEFORE), log: silentLog });
    expect(pending.kind).toBe('superseded');
  });

  test('a deployment number decides where there is one', async () => {
    await world.apply(BEFORE, { deploySeq: 7 });
    expect((await world.apply(AFTER, { deploySeq: 6, allowRollback: false })).kind).toBe('superseded');
    expect((await world.apply(AFTER, { deploySeq: 8, allowRollback: false })).kind).toBe('applied');
  });
});

describe('locks', () => {
  test('a reader in the way delays the change, not the other readers', async () => {
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
    // The lock is asked for at most 300 ms at a time.
    expect(Math.max(...waits)).toBeLessThan(1_000);
  });

  test('a lock that never comes is refused with the session in the way', async () => {
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
      /^MIG-401 .*could not lock public\.people within 0\.6 s; in the way: pid \d+ \(long-report/,
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
        "online fill token",
        "online column token required: check rows",
        "online column token required",
        "online column score required: guard for new rows",
        "online fill score",
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

test('shutting down ends a background build, and the next start finishes it', async () => {
  await fillPeople();
  const yaml = BEFORE.replace('    rls: [{', '    indexes: [{ columns: [name] }]\n    rls: [{');
  // A concurrent build waits for every transaction older than itself.
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
            `select from pg_stat_activity where query like 'create index concurrently%' and datname = current_database()`,
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
