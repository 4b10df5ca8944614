// Tests the scope of a comparison: only changes if the catalog is unchanged since the last run, everything otherwise.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { silentLog } from '../../src/log/log.ts';
import { planMigration } from '../../src/migrate/commands/plan.ts';
import type { MigrationPlan } from '../../src/migrate/make-plan.ts';
import { parseConfig } from './parse-config.ts';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(async () => {
  await world.close();
});
beforeEach(async () => {
  await world.empty();
});

const FILE = `
tables:
  authors:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: name, type: text, required: true }
  books:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: author, foreign_key: { references: authors.id } }
      - { name: pages, type: integer, default: 1, min: 1 }
    rls:
      - { operations: [select], using: "exists (select from authors where authors.id = author)" }
  shelves:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: book, foreign_key: { references: books.id } }
  notes:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: text, type: text, default: none }
`;

async function planIncrementally(yaml: string): Promise<MigrationPlan> {
  const planned = await planMigration(
    { owner: world.owner, config: parseConfig(yaml), log: silentLog, policy: { allowRollback: true } },
    'incremental',
  );
  if (planned.kind === 'refused')
    throw new Error(planned.problems.map((problem) => problem.message).join('\n'));
  return planned.plan;
}

const WIDER = FILE.replace('type: text, required: true', 'type: text, required: true, unique: true');

test('the scope of a change contains its table, its dependants and referring tables', async () => {
  await world.settle(FILE);
  expect([...((await planIncrementally(FILE)).scope ?? ['everything'])]).toEqual([]);
  const { scope } = await planIncrementally(WIDER);
  expect([...(scope ?? ['everything'])].sort()).toEqual(['public.authors', 'public.books']);
  await world.settle(WIDER);
  await world.settle(WIDER.replace('name: pages, type: integer', 'name: pages, type: bigint'));
  await world.settle(FILE.replace('foreign_key: { references: books.id }', 'type: bigint'));
});

test('drift causes a full comparison and is reverted', async () => {
  await world.settle(FILE);
  await world.sql('alter table public.notes alter column text drop default');
  expect((await planIncrementally(WIDER)).scope).toBe(null);
  await world.settle(WIDER);
  const [row] = await world.sql(
    `select pg_get_expr(adbin, adrelid) as text from pg_attrdef where adrelid = 'public.notes'::regclass and adnum = 2`,
  );
  expect(row).toEqual({ text: "'none'::text" });
});

test('a type change causes a full comparison if an undeclared object refers to the column', async () => {
  await world.settle(FILE);
  await world.sql('alter table public.notes add column author bigint references public.authors (id)');
  await world.settle(FILE);
  const narrower = FILE.replace('name: id, type: bigserial', 'name: id, type: serial');
  expect((await planIncrementally(WIDER)).scope?.has('public.notes')).toBe(false);
  expect((await planIncrementally(narrower)).scope).toBe(null);
});

test('an incompatible reference to a table out of scope is refused', async () => {
  await world.settle(FILE);
  const wrong = `${FILE}
      - { name: book, type: uuid, foreign_key: { references: books.id } }
`;
  expect(await world.refusal(wrong)).toEqual([
    expect.stringMatching(/^MIG-101 .*uuid cannot refer to books\.id, which is bigint$/),
  ]);
});

test('leftovers of a type change are found and removed with another change', async () => {
  await world.settle(FILE);
  await world.sql('insert into books (pages) select generate_series(1, 100); analyze books');
  const stop = new AbortController();
  await world.apply(
    FILE.replace('name: pages, type: integer', 'name: pages, type: bigint'),
    { maxWriteBlockMs: 0 },
    {
      signal: stop.signal,
      onStatement: (step) => {
        if (step.lane === 'shadow' && step.action.kind === 'backfill') stop.abort();
      },
    },
  );
  const columns = `select attname as name from pg_attribute where attrelid = 'public.books'::regclass
    and attnum > 0 and not attisdropped order by attnum`;
  const former = [{ name: 'id' }, { name: 'author' }, { name: 'pages' }];
  expect(await world.sql(columns)).toEqual([...former, { name: expect.stringMatching(/^svc_n_/) }]);
  const elsewhere = FILE.replace('default: none', 'default: nothing');
  expect((await planIncrementally(elsewhere)).scope).toBe(null);
  await world.settle(elsewhere);
  expect(await world.sql(columns)).toEqual(former);
});

test('drift of the changed table is reverted with the change', async () => {
  await world.settle(FILE);
  await world.sql(
    'drop policy books_p1_select on public.books; alter table public.books drop constraint books_pages_range',
  );
  await world.settle(FILE.replace('default: 1', 'default: 2'));
  const rows = await world.sql(
    `select polname as label from pg_policy union all select conname from pg_constraint
      where conname = 'books_pages_range' order by 1`,
  );
  expect(rows).toEqual([{ label: 'books_p1_select' }, { label: 'books_pages_range' }]);
});

test('all mistakes of new tables are reported together with their positions, and nothing changes', async () => {
  const wrong = `${FILE}
  loans:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: since, type: timestamptz, default: { sql: "nowhere()" } }
      - { name: days, type: integer, check: "dayz > 0" }
    rls:
      - { operations: [select], using: "lender = auth.uid()" }
`;
  const line = (text: string): number =>
    wrong.split('\n').findIndex((candidate) => candidate.includes(text)) + 1;
  const refusal = await world.refusal(wrong);
  expect(refusal.map((problem) => problem.split('\n')[0])).toEqual([
    expect.stringMatching(new RegExp(`^MIG-101 .*:${line('nowhere')}:\\d+.*nowhere\\(\\) does not exist`)),
    expect.stringMatching(new RegExp(`^MIG-101 .*:${line('dayz')}:\\d+.*"dayz" does not exist`)),
    expect.stringMatching(new RegExp(`^MIG-101 .*:${line('lender')}:\\d+.*"lender" does not exist`)),
  ]);
  expect(await world.sql(`select relname from pg_class where relnamespace = 'public'::regnamespace`)).toEqual(
    [],
  );
  expect(await world.sql('select status from svc_meta.run')).toEqual([]);
  expect(await world.sql('select identity from svc_meta.object')).toEqual([]);
  await world.settle(FILE);
});

test('a key of an unsuitable type is refused at the field', async () => {
  const wrong = FILE.replace('name: text, type: text, default: none', 'name: text, type: json, unique: true');
  const line = wrong.split('\n').findIndex((candidate) => candidate.includes('type: json')) + 1;
  expect(await world.refusal(wrong)).toEqual([
    expect.stringMatching(new RegExp(`^MIG-101 .*:${line}:.*json`)),
  ]);
});

test('a start after an interruption between the build and its record changes nothing', async () => {
  await world.settle(FILE);
  await world.sql(`update svc_meta.object set declared_hash = null, definition = definition - 'canonical';
    truncate svc_meta.stamp; update svc_meta.run set status = 'interrupted'`);
  const outcome = await world.settle(FILE);
  expect(outcome.kind).toBe('unchanged');
  expect(await world.sql('select identity from svc_meta.object where declared_hash is null')).toEqual([]);
});

test('recorded normal forms of unchanged declarations equal new normal forms', async () => {
  await world.settle(FILE);
  const kept = 'select identity, definition from svc_meta.object order by identity';
  const built = await world.sql(kept);
  await world.sql(`update svc_meta.object set declared_hash = null; truncate svc_meta.stamp`);
  await world.settle(FILE);
  expect(await world.sql(kept)).toEqual(built);
});
