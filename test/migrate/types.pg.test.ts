// Tests that supabase-js accepts the types of `svc types`: a correct program compiles, and each wrong use is an error.
import { execFile } from 'node:child_process';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { introspect } from '../../src/catalog/introspect.ts';
import { renderTypes } from '../../src/typegen/typescript.ts';
import { scaled } from '../support/run/scaled.ts';
import { parseConfig } from './parse-config.ts';
import { aWorld, type World } from './world.ts';

const run = promisify(execFile);
const MODULES = fileURLToPath(new URL('../../node_modules', import.meta.url));

let world: World;
let folder: string;
beforeAll(async () => {
  world = await aWorld();
  folder = await mkdtemp(join(tmpdir(), 'svc-types-'));
  await symlink(MODULES, join(folder, 'node_modules'));
});
afterAll(async () => {
  await world.close();
  await rm(folder, { recursive: true });
});

const YAML = `
types:
  mood: { enum: [sad, ok] }
tables:
  users:
    fields:
      - { name: id, type: uuid, primary_key: true, default: uuid_v4() }
      - { name: mail, type: text, required: true, unique: true }
    rls: []
  todos:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: title, type: text, required: true }
      - { name: state, type: text, enum: [open, done], default: open }
      - { name: tags, type: "text[]" }
      - { name: meta, type: jsonb }
      - { name: mood, type: mood, default: ok }
      - { name: moods, type: "mood[]" }
      - { name: owner, foreign_key: { references: users.id } }
    rls: []
  'quo"te':
    fields: [{ name: id, type: integer, primary_key: true }, { name: due date, type: date }]
    rls: []
rpc:
  open_todos:
    language: sql
    volatility: stable
    args: [{ name: most, type: integer, default: 5 }]
    returns: { type: setof todos }
    body: select * from todos limit most
  quoted: { language: sql, volatility: stable, returns: { type: 'setof "quo""te"' }, body: 'select * from "quo""te"' }
  counts:
    language: sql
    returns: { table: [{ name: label, type: text }, { name: n, type: integer }] }
    body: select title, 1 from todos
  total: { language: sql, volatility: stable, returns: { type: bigint }, body: select count(*) from todos }
`;

const PROGRAM = `
import { createClient } from '@supabase/supabase-js';
import type { Database, Enums, Tables, TablesInsert } from './database.ts';

const client = createClient<Database>('http://localhost', 'key');

const todo = await client.from('todos').select('id, title, tags, owner').single();
if (todo.data) {
  const id: number = todo.data.id;
  const title: string = todo.data.title;
  const tags: string[] | null = todo.data.tags;
  const owner: string | null = todo.data.owner;
  // @ts-expect-error the column is not selected
  todo.data.meta;
  // @ts-expect-error the value may be null
  const sure: string = todo.data.owner;
  void [id, title, tags, owner, sure];
}
const embedded = await client.from('todos').select('title, users (mail)').single();
const mail: string | undefined = embedded.data?.users?.mail;
await client.from('todos').insert({ title: 'x' });
await client.from('todos').update({ meta: { any: ['json', 1, null] } }).eq('id', 1);
// @ts-expect-error a required column
await client.from('todos').insert({ tags: [] });
// @ts-expect-error no such column
await client.from('todos').insert({ title: 'x', nope: 1 });
// @ts-expect-error no such table
await client.from('nothing').select();
await client.from('quo"te').select('"due date"');
const rows = await client.rpc('open_todos', { most: 3 });
const first: string | undefined = rows.data?.[0]?.title;
const total: number | null = (await client.rpc('total')).data;
const counted: number | undefined = (await client.rpc('counts')).data?.[0]?.n;
const quoted = await client.rpc('quoted');
const due: string | null | undefined = quoted.data?.[0]?.['due date'];
// @ts-expect-error no such function
await client.rpc('nothing');
const row: Tables<'todos'> = { id: 1, title: '', state: 'open', tags: null, meta: null, owner: null,
  mood: 'sad', moods: ['ok'] };
const mood: Enums<'mood'> = 'ok';
await client.from('todos').insert({ title: 'x', mood, moods: [mood] });
// @ts-expect-error no such value
await client.from('todos').insert({ title: 'x', mood: 'great' });
const insert: TablesInsert<'users'> = { mail: 'a@example.test' };
void [mail, first, total, counted, due, row, insert];
`;

test('the types compile with a supabase-js client', { timeout: scaled(120_000) }, async () => {
  await world.settle(YAML);
  const config = parseConfig(YAML);
  const catalog = await introspect(world.owner, ['public']);
  await writeFile(join(folder, 'database.ts'), renderTypes({ config, catalog }));
  await writeFile(join(folder, 'program.ts'), PROGRAM);
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  await writeFile(
    join(folder, 'tsconfig.json'),
    JSON.stringify({
      compilerOptions: {
        strict: true,
        noEmit: true,
        noUncheckedIndexedAccess: true,
        module: 'nodenext',
        target: 'es2024',
        skipLibCheck: true,
        allowImportingTsExtensions: true,
        types: ['node'],
      },
      include: ['*.ts'],
    }),
  );
  const compiled = await run(join(MODULES, '.bin', 'tsc'), ['-p', folder]).catch(
    (error: Error & { stdout?: string }) => ({ stdout: error.stdout ?? error.message }),
  );
  expect(compiled.stdout).toBe('');
});

test('a function can return rows of a table with a quote in its name', async () => {
  await world.settle(YAML);
  await world.sql(`insert into "quo""te" (id) values (7)`);
  expect(await world.sql('select id from quoted()')).toEqual([{ id: 7 }]);
});
