// Tests the output and exit codes of `svc migrate`, as a deployment script reads them.
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { aWorld, type World } from './world.ts';
import { scaled } from '../support/run/scaled.ts';

const SVC = fileURLToPath(new URL('../../bin/svc.js', import.meta.url));

let world: World;
let folder: string;
beforeAll(async () => {
  world = await aWorld();
  folder = await mkdtemp(join(tmpdir(), 'svc-cli-'));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
  await world.close();
});

type Ran = { readonly code: number; readonly out: string };

function svc(...args: string[]): Promise<Ran> {
  const env = { ...process.env, SVC_DATABASE_URL: world.url, NO_COLOR: '1' };
  return new Promise((resolve) => {
    execFile(process.execPath, [SVC, ...args], { cwd: folder, env }, (error, stdout, stderr) => {
      const code = error && typeof error.code === 'number' ? error.code : 0;
      resolve({ code, out: stdout + stderr });
    });
  });
}

const FIRST = `version: 1
# the whole backend
tables:
  todos:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: title, type: text, required: true } # what to do
      - { name: done, type: boolean, default: false }
    indexes:
      - { columns: [title] }
    rls:
      - { operations: [select], using: 'true' }
`;

async function file(text: string): Promise<void> {
  await writeFile(join(folder, 'svc.yaml'), text);
}

test('from the first plan to the last prune', { timeout: scaled(300_000) }, async () => {
  await file(FIRST);
  const first = await svc('migrate', 'plan', '--check');
  expect(first.code).toBe(2);
  expect(first.out).toContain('+ table todos (3 columns)');
  expect(await svc('migrate', 'apply')).toMatchObject({ code: 0 });
  expect(await svc('migrate', '--check')).toMatchObject({ code: 0 });
  await world.sql(`insert into todos (title, done) values ('a', true), ('b', false)`);

  const renamed = await svc('migrate', 'rename', 'todos.title', 'headline');
  expect(renamed.code).toBe(0);
  const text = await readFile(join(folder, 'svc.yaml'), 'utf8');
  expect(text).toBe(
    FIRST.replace('name: title,', 'name: headline, renamed_from: title,').replace('[title]', '[headline]'),
  );
  expect((await svc('migrate', 'plan')).out).toMatch(
    /~ rename column title → headline: the API understands both names · AccessExclusive · 1 ms$/m,
  );
  expect(await svc('migrate', 'apply')).toMatchObject({ code: 0 });
  expect(await world.sql('select headline from todos order by id')).toEqual([
    { headline: 'a' },
    { headline: 'b' },
  ]);

  await file(text.replace(/.*name: done.*\n/, ''));
  expect((await svc('migrate', 'plan', '--sql')).out).toMatch(/^begin;\nset local lock_timeout/);
  expect(await svc('migrate', 'apply', '--drop', 'refuse')).toMatchObject({ code: 3 });
  expect(await svc('migrate', 'apply')).toMatchObject({ code: 0 });
  expect((await svc('migrate', 'status')).out).toMatch(/retired +tables\.todos\.fields\.done .* 2 values/);
  expect((await svc('migrate', 'prune')).out).toContain('nothing to prune');
  const kept = await svc('migrate', 'prune', 'tables.todos.fields.done');
  expect(kept).toMatchObject({ code: 3, out: expect.stringContaining('destroys 2 non-null values') });

  expect(await svc('migrate', 'down')).toMatchObject({ code: 0 });
  expect(await svc('migrate', 'apply')).toMatchObject({ code: 3, out: expect.stringContaining('MIG-403') });
  expect(await svc('migrate', 'apply', '--allow-rollback')).toMatchObject({ code: 0 });
  const pruned = await svc(
    'migrate',
    'prune',
    'tables.todos.fields.done',
    '--allow',
    'data_loss=tables.todos.fields.done',
  );
  expect(pruned).toMatchObject({ code: 0, out: expect.stringContaining('dropped tables.todos.fields.done') });
  expect(await svc('migrate', '--check')).toMatchObject({ code: 0 });
  expect((await svc('migrate', 'history')).out.trim().split('\n')).toHaveLength(5);
});

test('drift is shown, and apply reverts it', { timeout: scaled(180_000) }, async () => {
  expect(await svc('migrate', 'drift')).toMatchObject({ code: 0 });
  await world.sql(`alter table todos alter column headline drop not null; alter table todos disable row level security;
    create policy backdoor on todos for select to anon using (true)`);
  const drift = await svc('migrate', 'drift');
  expect(drift.code).toBe(4);
  expect(drift.out).toContain('column headline required');
  expect(drift.out).toContain('row-level security on');
  expect(drift.out).toContain('unmanaged  policy backdoor');
  const forPrograms = await svc('migrate', 'drift', '--json');
  expect(forPrograms.code).toBe(4);
  expect(JSON.parse(forPrograms.out)).toMatchObject({
    ok: false,
    command: 'migrate drift',
    data: {
      applied: true,
      steps: expect.arrayContaining([
        expect.objectContaining({ sql: expect.stringMatching(/set not null/i) }),
      ]),
      unmanaged: [{ what: 'policy', name: 'backdoor' }],
      foreign: [],
    },
    problems: [],
  });
  expect(await svc('migrate', 'apply')).toMatchObject({ code: 0 });
  // Apply keeps an undeclared policy and does not report it.
  const policy = await svc('migrate', 'drift');
  expect(policy.code).toBe(4);
  expect(policy.out).toContain('svc does not change a policy');
  expect(policy.out).not.toContain('svc migrate apply');
  await world.sql(
    `drop policy backdoor on todos; create view titles as select headline from todos; grant select on titles to anon`,
  );
  const listed = await svc('migrate', 'drift');
  expect(listed).toMatchObject({
    code: 0,
    out: expect.stringContaining('view public.titles   open to callers'),
  });
  expect((await svc('migrate', 'status')).out).toMatch(/unmanaged +view public\.titles {3}open to callers/);
  await world.sql(`drop view titles`);
});

test(
  'a saved plan runs only against the catalog for which it was made',
  { timeout: scaled(180_000) },
  async () => {
    const text = await readFile(join(folder, 'svc.yaml'), 'utf8');
    await file(text.replace('    indexes:', '      - { name: due, type: date }\n    indexes:'));
    expect(await svc('migrate', 'plan', '--out', 'plan.json')).toMatchObject({ code: 0 });
    await world.sql(`alter table todos add column surprise int`);
    expect(await svc('migrate', 'apply', 'plan.json')).toMatchObject({ code: 4 });
    await svc('migrate', 'plan', '--out', 'plan.json');
    expect(await svc('migrate', 'apply', 'plan.json')).toMatchObject({ code: 0 });
  },
);

test('invalid input has distinct exit codes', { timeout: scaled(180_000) }, async () => {
  const text = await readFile(join(folder, 'svc.yaml'), 'utf8');
  await world.sql(`insert into todos (headline) values ('a')`);
  await file(text.replace('type: text, required: true', 'type: text, required: true, unique: true'));
  expect(await svc('migrate', 'plan')).toMatchObject({ code: 6 });
  await file(text.replace('type: text, required: true', 'type: txet, required: true'));
  expect(await svc('migrate', 'plan')).toMatchObject({
    code: 7,
    out: expect.stringContaining('type "txet" does not exist'),
  });
  await file(text.replace('version: 1', 'version: 1\nnonsense: true'));
  expect(await svc('migrate', 'plan')).toMatchObject({ code: 7 });
  await file(text);
});

test(
  'pull writes a file with an empty plan, and generated types follow the schema',
  { timeout: scaled(180_000) },
  async () => {
    expect(await svc('migrate', 'pull', '--out', 'pulled.yaml')).toMatchObject({ code: 0 });
    expect(await svc('migrate', 'plan', '--check', '-c', 'pulled.yaml')).toMatchObject({ code: 0 });
    const { out } = await svc('types');
    expect(out).toContain('headline: string;');
    expect(out).not.toContain('surprise');
    expect(await svc('types', '--out', 'database.ts')).toMatchObject({
      code: 0,
      out: expect.stringContaining('wrote'),
    });
    expect(await svc('types', '--out', 'database.ts')).toMatchObject({
      code: 0,
      out: expect.stringContaining('up to date'),
    });
  },
);

test(
  'svc refresh fills materialized views and reports which refreshes blocked readers',
  { timeout: scaled(120_000) },
  async () => {
    await world.empty();
    await file(`${FIRST}views:
  titles: { query: 'select distinct title from todos', materialized: true,
    indexes: [{ columns: [title], unique: true }] }
  counted: { query: 'select count(*) as n from titles', materialized: true }
`);
    expect(await svc('migrate', 'apply')).toMatchObject({ code: 0 });
    await world.sql(`insert into todos (title) values ('a'), ('b'), ('b')`);
    const { code, out } = await svc('refresh');
    expect(code).toBe(0);
    expect(out).toMatch(/^refreshed titles in \d+ ms\nrefreshed counted in \d+ ms\. Readers were blocked/m);
    expect(await world.sql('select n::int from counted')).toEqual([{ n: 2 }]);
    expect(await svc('migrate', '--check')).toMatchObject({ code: 0 });
    expect((await svc('refresh', 'title')).out).toContain('Did you mean titles?');
  },
);
