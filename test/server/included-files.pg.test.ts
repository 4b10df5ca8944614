// `svc dev` on a configuration in several files: all of them are watched, including files that a pattern
// matches later.
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { runSvc, startSvc, type SvcProcess } from '../support/svc-process.ts';
import { copyTodoProject, type TodoProject } from '../support/todo-project.ts';

const NOTICES =
  'tables:\n  notices:\n    fields: [{ name: id, type: bigserial, primary_key: true }]\n' +
  '    rls: [{ operations: [select], using: "true" }]\n';

let project: TodoProject;
let database: TestDatabase;
let svc: SvcProcess;
let tables: string;

beforeAll(async () => {
  project = copyTodoProject();
  database = await createDatabase();
  tables = join(project.directory, 'tables');
  mkdirSync(tables);
  // Moves all tables of the example to a separate file.
  const text = readFileSync(project.config, 'utf8');
  const [, before = '', section = '', after = ''] =
    /^([\s\S]*?\n)(tables:\n[\s\S]*?\n)(\w[\s\S]*)$/.exec(text) ?? [];
  writeFileSync(join(tables, 'example.yaml'), section);
  writeFileSync(project.config, `${before}include: tables/*.yaml\n${after}`);
  svc = await startSvc({ command: 'dev', config: project.config, env: { SVC_DATABASE_URL: database.url } });
});
afterAll(async () => {
  await svc?.stop();
  await database?.drop();
  project?.remove();
});

const client = () => createClient(svc.url, svc.publishableKey, { auth: { persistSession: false } });
const selectStatus = async (table: string): Promise<number> =>
  (await client().from(table).select('id')).status;

test('an app in two files answers the client as in one', async () => {
  expect(await selectStatus('tips')).toBe(200);
  const { data } = await client().auth.signUp({
    email: 'ann@example.com',
    password: 'correct horse battery',
  });
  expect(data.user?.email).toBe('ann@example.com');
});

test('a change of an included file is served; a mistake in it is reported with its place', async () => {
  const file = join(tables, 'example.yaml');
  const good = readFileSync(file, 'utf8');
  writeFileSync(file, good.replace('required: true, unique: true }', 'requird: true, unique: true }'));
  await expect
    .poll(() => svc.output())
    .toMatch(/tables\/example\.yaml:\d+:\d+ error tables\.tips\.fields\[1\]\.requird/);
  expect(await selectStatus('tips')).toBe(200);
  writeFileSync(
    file,
    good.replace(
      'required: true, unique: true }',
      'required: true, unique: true }\n      - { name: stars, type: integer }',
    ),
  );
  await expect.poll(async () => (await client().from('tips').select('stars')).status).toBe(200);
});

test('a new file that matches the pattern is served, and a deleted one is not', async () => {
  expect(await selectStatus('notices')).toBe(404);
  writeFileSync(join(tables, 'notices.yaml'), NOTICES);
  await expect.poll(() => selectStatus('notices')).toBe(200);
  renameSync(join(tables, 'notices.yaml'), join(project.directory, 'notices.away'));
  await expect.poll(() => selectStatus('notices')).toBe(404);
});

test('svc config print writes one equivalent file', async () => {
  const printed = await runSvc(['config', 'print', project.config]);
  expect([printed.code, printed.output.includes('include:')]).toEqual([0, false]);
  // The order matters: a reload in between would find that the tables are gone.
  writeFileSync(project.config, printed.output);
  rmSync(tables, { recursive: true });
  const plan = await runSvc(['migrate', 'plan', '--config', project.config], {
    env: { SVC_DATABASE_URL: database.url },
  });
  expect(plan.output).toContain('nothing to do');
});
