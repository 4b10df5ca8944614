// The process is killed, or its session ends, while a long step waits for a lock. The catalog does not show the step,
// but the next start must complete it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { StatementStep } from '../../src/migrate/apply/settings.ts';
import { aWorld, type World } from './world.ts';

const CHILD = fileURLToPath(new URL('crash-child.ts', import.meta.url));

let folder: string;
let world: World;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-waiting-'));
  world = await aWorld();
});
afterAll(async () => {
  await world.close();
  await rm(folder, { recursive: true });
});
beforeEach(forgetAll);

async function forgetAll(): Promise<void> {
  await world.empty();
}

const people = (...fields: string[]): string => `
tables:
  teams:
    fields:
      - { name: id, type: integer, primary_key: true }
    rls: []
  people:
    fields:
      - { name: id, type: integer, primary_key: true }
${fields.map((field) => `      - { ${field} }\n`).join('')}`;

const FIELDS = ['name: mail, type: text', 'name: name, type: text', 'name: team, type: integer'] as const;
const BEFORE = `${people(...FIELDS, 'name: old, type: text')}    rls: []
`;

/** Files with a single step outside the main transaction, one per kind, so that the catalog shows no other change. */
const AFTER: ReadonlyArray<readonly [string, string]> = [
  ['a unique constraint', BEFORE.replace('name: mail, type: text', 'name: mail, type: text, unique: true')],
  ['a unique index', `${BEFORE}    indexes: [{ columns: [mail, name], unique: true }]\n`],
  ['an index', `${BEFORE}    indexes: [{ columns: [name] }]\n`],
  ['a check', BEFORE.replace('name: name, type: text', 'name: name, type: text, check: length(name) > 0')],
  [
    'a foreign key',
    BEFORE.replace('name: team, type: integer', 'name: team, foreign_key: { references: teams.id }'),
  ],
  ['a required field', BEFORE.replace('name: name, type: text', 'name: name, type: text, required: true')],
  [
    'a required field with a backfill',
    BEFORE.replace(
      'name: old, type: text',
      'name: old, type: text, required: true, backfill: "\'old \' || id"',
    ),
  ],
  [
    'a field with a different default for each row',
    BEFORE.replace('    rls: []\n', (found) => found).replace(
      / {4}rls: \[\]\n$/,
      `      - { name: token, type: uuid, required: true, default: uuid_v4() }\n    rls: []\n`,
    ),
  ],
  ['another type', BEFORE.replace('name: team, type: integer', 'name: team, type: bigint, unique: false')],
];

const ROWS = 50;

async function begin(): Promise<void> {
  await world.settle(BEFORE);
  await world.sql(`insert into teams select n from generate_series(1, 5) n;
    insert into people select n, 'mail ' || n, 'name ' || n, 1 + n % 5, null from generate_series(1, ${ROWS}) n;
      analyze people`);
}

async function expectConverged(yaml: string): Promise<void> {
  const outcome = await world.apply(yaml, { maxWriteBlockMs: 0 });
  expect(outcome.kind, JSON.stringify(outcome.kind === 'refused' ? outcome.problems : '')).toMatch(
    /applied|unchanged/,
  );
  expect((await world.plan(yaml)).steps.map((step) => step.sql)).toEqual([]);
  expect(await world.sql(`select complete from svc_meta.stamp`)).toEqual([{ complete: true }]);
  expect(
    await world.sql(
      `select count(*)::int as rows, bool_and(name = 'name ' || id and team = 1 + id % 5) as same from people`,
    ),
  ).toEqual([{ rows: ROWS, same: true }]);
  const leftovers = `select conname as name from pg_constraint where conname like 'svc\\_%'
    union all select relname from pg_class join pg_index on indexrelid = pg_class.oid where not indisvalid
    union all select attname from pg_attribute where attname like 'svc\\_%' and not attisdropped`;
  expect(await world.sql(leftovers)).toEqual([]);
}

/** Holds a lock on `people`, as VACUUM or a report does. */
class Holder {
  readonly #client = new pg.Client(world.url);

  static async hold(mode: string): Promise<Holder> {
    const holder = new Holder();
    await holder.#client.connect();
    await holder.#client.query(`begin; lock table people in ${mode} mode`);
    return holder;
  }

  async waiter(): Promise<number | null> {
    const { rows } = await this.#client.query<{ pid: number }>(
      `select pid from pg_stat_activity where datname = current_database()
        and pg_backend_pid() = any (pg_blocking_pids(pid))`,
    );
    return rows[0]?.pid ?? null;
  }

  /** Terminates waiting sessions. Returns false if the step needs no lock of the holder. */
  async endWaiter(first: () => void, done: () => boolean): Promise<boolean> {
    let pid: number | null = null;
    await expect
      .poll(
        async () => {
          pid ??= await this.waiter();
          return pid !== null || done();
        },
        { interval: 5 },
      )
      .toBe(true);
    if (pid === null) return false;
    first();
    await world.sql('select pg_terminate_backend($1)', [pid]);
    await expect
      .poll(() => world.sql(`select 1 from pg_stat_activity where pid = $1`, [pid]), {
        interval: 5,
      })
      .toEqual([]);
    return true;
  }

  async release(): Promise<void> {
    await this.#client.end();
  }
}

/** The step that was left waiting, or null if there are fewer steps. */
type Left = { readonly summary: string; readonly waited: boolean } | null;

async function killedWhileWaiting(yaml: string, at: number, mode: string): Promise<Left> {
  const file = join(folder, `${Math.random()}.yaml`);
  await writeFile(file, yaml);
  const process_ = spawn(process.execPath, [CHILD, world.ownerUrl, file, String(at), 'wait'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let over = false;
  const exited = once(process_, 'exit').then(() => {
    over = true;
  });
  const lines = createInterface({ input: process_.stdout });
  const [line] = (await once(lines, 'line')) as [string];
  if (!line.startsWith('at ')) {
    await exited;
    return null;
  }
  const holder = await Holder.hold(mode);
  process_.stdin.write('go\n');
  const waited = await holder.endWaiter(
    () => process_.kill('SIGKILL'),
    () => over,
  );
  await exited;
  await holder.release();
  return { summary: line.slice(3), waited };
}

async function endedWhileWaiting(yaml: string, at: number, mode: string): Promise<Left> {
  let steps = 0;
  let over = false;
  let summary: string | null = null;
  let waited: Promise<boolean> | undefined;
  let freed: Promise<void> | undefined;
  const onStatement = async (step: StatementStep): Promise<void> => {
    if (step.lane === 'metadata' || step.lane === 'cutover') return;
    steps += 1;
    if (steps !== at) return;
    summary = step.summary;
    const holder = await Holder.hold(mode);
    waited = holder.endWaiter(
      () => {},
      () => over,
    );
    freed = waited.then(
      () => holder.release(),
      () => holder.release(),
    );
  };
  // The outcome of this run is irrelevant, but it must end.
  await world.apply(yaml, { maxWriteBlockMs: 0 }, { onStatement }).catch(() => {});
  over = true;
  await freed;
  return summary === null ? null : { summary, waited: (await waited) ?? false };
}

test('a long step that was refused or timed out is completed later', async () => {
  await begin();
  const [, unique] = AFTER[0] ?? ['', ''];
  const holder = await Holder.hold('share update exclusive');
  const [, check] = AFTER[3] ?? ['', ''];
  expect((await world.refusal(check, { maxWriteBlockMs: 0, lockBudgetMs: 500 })).join()).toMatch(/^MIG-401/);
  await holder.release();
  await expectConverged(check);

  let built = false;
  const onStatement = async (step: StatementStep): Promise<void> => {
    if (step.lane !== 'concurrent' || built) return;
    built = true;
    await world.sql(`insert into people (id, mail) values (-1, 'mail 1')`);
  };
  const outcome = await world.apply(unique, { maxWriteBlockMs: 0 }, { onStatement });
  expect(outcome).toMatchObject({ kind: 'refused', problems: [{ code: 'MIG-202' }] });
  await world.sql('delete from people where id = -1');
  await expectConverged(unique);
});

test('the next run removes the objects that an interrupted run did not remove', async () => {
  const before =
    `${BEFORE.replace('name: mail, type: text', 'name: mail, type: text, unique: true')}    indexes:
      - { columns: [name], unique: true }
      - { columns: [name, old] }
storage:
  images: { rls: [{ operations: [select, insert], using: helps(1) }] }
rpc:
  helps: { language: sql, args: [{ name: a, type: integer }], returns: { type: boolean }, body: select a > 0 }
  goes: { language: sql, args: [{ name: a, type: integer }], returns: { type: boolean }, body: select a > 0 }
`.replace(
      '    rls: []\n    indexes',
      `    rls:
      - { operations: [select], using: team > 0 }
      - { operations: [select], using: team > 1 }
      - { operations: [update], using: team > 2 and helps(team) }
    indexes`,
    );
  // An online type change, together with removals in the same file.
  const after = BEFORE.replace('name: team, type: integer', 'name: team, type: bigint').replace(
    /rls: \[\]\n$/,
    'rls: [{ operations: [select], using: team > 3 }]\n',
  );
  const left = `select 'policy ' || polname as what from pg_policy
    where polrelid in ('people'::regclass, 'storage.objects'::regclass)
    union all select 'index ' || indexrelid::regclass from pg_index where indrelid = 'people'::regclass
    union all select 'function ' || proname from pg_proc where pronamespace = 'public'::regnamespace order by 1`;
  let ended = 0;
  for (let at = 1; ; at += 1) {
    await forgetAll();
    await world.settle(before);
    await world.sql(`insert into teams select n from generate_series(1, 5) n;
      insert into people select n, 'mail ' || n, 'name ' || n, 1 + n % 5, null from generate_series(1, ${ROWS}) n;
        analyze people`);
    const interrupted = await endedWhileWaiting(after, at, 'share row exclusive');
    await expectConverged(after);
    expect(await world.sql(left)).toEqual([
      { what: 'index people_pkey' },
      { what: 'policy people_p1_select' },
    ]);
    expect((await world.plan(after)).unmanaged).toEqual([]);
    expect(
      await world.sql(
        `select identity from svc_meta.object where definition ? 'leaving' or kind = 'function'`,
      ),
    ).toEqual([]);
    if (interrupted === null) break;
    ended += 1;
  }
  expect(ended).toBeGreaterThan(2);
});

describe.each([
  ['the process is killed', killedWhileWaiting],
  ['its session is ended', endedWhileWaiting],
])('while a long step waits for a lock, %s', (_, leave) => {
  test.each(AFTER)('%s', { timeout: 120_000 }, async (_kind, yaml) => {
    const waited: string[] = [];
    for (let at = 1; ; at += 1) {
      await forgetAll();
      await begin();
      const left = await leave(yaml, at, 'share row exclusive');
      await expectConverged(yaml);
      if (left === null) break;
      if (left.waited) waited.push(left.summary);
    }
    expect(waited.length).toBeGreaterThan(0);
  });

  test('a type change that waits for its cutover', async () => {
    const [, yaml] = AFTER.find(([kind]) => kind === 'another type') ?? ['', ''];
    let last = 0;
    await begin();
    await world.apply(
      yaml,
      { maxWriteBlockMs: 0 },
      {
        onStatement: (step) => {
          if (step.lane === 'shadow') last += 1;
        },
      },
    );
    await forgetAll();
    await begin();
    // A reader blocks only the last step.
    expect(await leave(yaml, last, 'access share')).toMatchObject({ waited: true });
    await expectConverged(yaml);
  });
});
