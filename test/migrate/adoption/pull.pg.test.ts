// Tests `svc migrate pull` and a first start with databases of other products.
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import pg from 'pg';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { runSvc } from '../../support/svc-process.ts';
import { SUPABASE_SHAPED } from './supabase-shaped.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};

let folder: string;
let database: TestDatabase;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-pull-'));
});
afterAll(() => rm(folder, { recursive: true }));
beforeEach(async () => {
  database = await createDatabase();
});
afterEach(() => database.drop());

const svc = (...args: string[]): ReturnType<typeof runSvc> =>
  runSvc(args, { cwd: folder, env: { SVC_DATABASE_URL: database.url, NO_COLOR: '1' } });

async function sql(text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(database.url);
  await client.connect();
  try {
    const result = await client.query(text);
    return Array.isArray(result) ? [] : result.rows;
  } finally {
    await client.end();
  }
}

const at = (name: string): string => join(folder, name);

/** Lists all objects except those of PostgreSQL, with their owners. */
const CATALOG = `select n.nspname, c.relname, c.relowner::regrole::text as owner, c.relacl::text from pg_class c
  join pg_namespace n on n.oid = c.relnamespace where n.nspname !~ '^(pg_|information_schema)' order by 1, 2`;

describe('a Supabase-shaped database', () => {
  test('is refused before any change, and can be pulled', async () => {
    await sql(SUPABASE_SHAPED);
    const [schemas, objects] = [`select nspname from pg_namespace order by 1`, CATALOG];
    const before = [await sql(schemas), await sql(objects)];
    const pulled = await svc('migrate', 'pull', '--out', 'supabase.yaml');
    expect(pulled).toMatchObject({ code: 0, output: expect.stringContaining('wrote supabase.yaml') });
    expect(await svc('validate', '-c', 'supabase.yaml')).toMatchObject({ code: 0 });
    const text = await readFile(at('supabase.yaml'), 'utf8');
    expect(text).toContain('references: auth.users.id');
    expect(text).toContain('using: auth.uid() = id');
    const planned = await svc('migrate', 'plan', '-c', 'supabase.yaml');
    expect(planned.output).toMatch(/^error: ADO-302: .* auth \(of supabase_auth_admin\) and storage /);
    expect(planned.output).not.toContain('    at ');
    expect(planned.code).toBe(8);
    const started = await runSvc(['serve', '--migrate', '-c', 'supabase.yaml', '--port', '0'], {
      cwd: folder,
      env: { SVC_DATABASE_URL: database.url, ...KEYS },
    });
    expect(started).toMatchObject({ code: 78, output: expect.stringContaining('ADO-302') });
    expect([await sql(schemas), await sql(objects)]).toEqual(before);
  });

  test('is refused because of a single schema', async () => {
    await sql(
      `create schema auth; create function auth.uid() returns uuid language sql as 'select null::uuid'`,
    );
    await writeFile(at('empty.yaml'), 'version: 1\ntables: {}\n');
    const planned = await svc('migrate', 'plan', '-c', 'empty.yaml');
    expect(planned).toMatchObject({ code: 8, output: expect.stringContaining('the schema auth (of ') });
    expect(await sql(`select from pg_namespace where nspname = 'svc_meta'`)).toEqual([]);
  });
});

test('a role that can read only the catalog is sufficient to pull', async () => {
  const role = `svc_test_reader_${process.pid}`;
  await sql(`${SUPABASE_SHAPED}; create role ${role} login password 'reader'`);
  const url = new URL(database.url);
  url.username = role;
  url.password = 'reader';
  try {
    const pulled = await runSvc(['migrate', 'pull'], { cwd: folder, env: { SVC_DATABASE_URL: url.href } });
    expect(pulled).toMatchObject({ code: 0, output: expect.stringContaining('profiles:') });
  } finally {
    await sql(`drop role ${role}`);
  }
});

describe('an existing file', () => {
  test('is compared with the database and kept, unless --force is given', async () => {
    await sql('create table notes (id integer primary key)');
    expect(await svc('migrate', 'pull', '--out', 'new/svc.yaml')).toMatchObject({ code: 0 });
    expect(await svc('migrate', 'pull', '--out', 'new/svc.yaml')).toMatchObject({
      code: 0,
      output: expect.stringContaining('already matches the database'),
    });
    await sql('alter table notes add column body text');
    const before = await readFile(at('new/svc.yaml'), 'utf8');
    const second = await svc('migrate', 'pull', '--out', 'new/svc.yaml');
    expect(second.code).toBe(1);
    expect(second.output).toContain('+       - { name: body, type: text }\n');
    expect(second.output).toContain('error: new/svc.yaml already exists');
    expect(await readFile(at('new/svc.yaml'), 'utf8')).toBe(before);
    expect(await svc('migrate', 'pull', '--out', 'new/svc.yaml', '--force')).toMatchObject({ code: 0 });
    expect(await readFile(at('new/svc.yaml'), 'utf8')).toContain('name: body');
  });

  test('must not be a folder, and its folder must not be a file', async () => {
    await writeFile(at('plain'), '');
    expect(await svc('migrate', 'pull', '--out', '.')).toMatchObject({
      code: 1,
      output: expect.stringMatching(/^error: cannot read \.: EISDIR\n$/),
    });
    expect(await svc('migrate', 'pull', '--out', 'plain/svc.yaml')).toMatchObject({
      code: 1,
      output: expect.stringMatching(/^error: cannot \w+ plain\/svc\.yaml: E\w+\n$/),
    });
    expect((await stat(at('plain'))).isFile()).toBe(true);
  });
});

test('a missing schema is reported', async () => {
  expect(await svc('migrate', 'pull', '--schema', 'public', 'nosuch')).toMatchObject({
    code: 1,
    output: expect.stringMatching(/^error: there is no schema nosuch in this database\n/),
  });
});

test('texts that look like references to variables are not changed', async () => {
  await sql(`create table notes (id integer primary key, tag text default '\${HOME}',
    odd text default 'a \${ b', kind text check (kind in ('\${A}', '\${')));
    create function greet() returns text language sql as 'select ''\${HOME:-x}'''`);
  expect(await svc('migrate', 'pull', '--out', 'dollars.yaml')).toMatchObject({ code: 0 });
  await sql('drop table notes; drop function greet()');
  expect(await svc('migrate', 'apply', '-c', 'dollars.yaml')).toMatchObject({ code: 0 });
  expect(
    await sql(
      "select column_default as text from information_schema.columns where table_name = 'notes' " +
        'and column_default is not null order by 1',
    ),
  ).toEqual([{ text: "'${HOME}'::text" }, { text: "'a ${ b'::text" }]);
  expect(await sql(`select prosrc from pg_proc where proname = 'greet'`)).toEqual([
    { prosrc: "select '${HOME:-x}'" },
  ]);
});

test('objects that a file cannot express are listed once, with the reason', async () => {
  await sql(`
    create schema audit; create schema unread;
    create table unread.other (id integer) with (fillfactor = 50);
    create table notes (id integer generated always as identity (start 100 increment 5) primary key,
      kind text, title text,
      constraint of_kind unique (kind) include (title),
      constraint short check (length(title) < 10) no inherit) with (fillfactor = 70);
    alter table notes force row level security;
    alter table notes alter title set storage external, alter kind set statistics 500;
    create table plain (id integer); create table archived () inherits (plain);
    create index by_title on notes (title);
    create policy own on notes using (true);
    create function audit.record() returns trigger language plpgsql as 'begin return new; end';
    create trigger recorded after update on notes for each row execute function audit.record();
    comment on function audit.record() is 'Keeps what was';
    comment on index by_title is 'For lists'; comment on policy own on notes is 'All';
    comment on trigger recorded on notes is 'See audit'; comment on constraint short on notes is 'Fits a line';
    create publication elsewhere for table notes;
    create extension if not exists postgres_fdw; create server far foreign data wrapper postgres_fdw;
    alter default privileges grant select on tables to public;`);
  const { code, output } = await svc('migrate', 'pull', '--schema', 'public', 'audit');
  const listed = output.split('\n').filter((line) => line.startsWith('#   '));
  expect(listed.map((line) => line.slice(4)).sort()).toEqual([
    'column public.notes.id: its sequence starts with 100 and increments by 5',
    'column public.notes.kind: its statistics target',
    'column public.notes.title: its storage',
    'comment on constraint short of public.notes',
    'comment on function audit.record()',
    'comment on index by_title of public.notes',
    'comment on policy own of public.notes',
    'comment on trigger recorded of public.notes',
    'constraint of_kind of public.notes: its INCLUDE',
    'constraint short of public.notes: NO INHERIT',
    'default privileges of postgres: the file does not declare default privileges',
    'foreign server far: its rows are on another server',
    'publication elsewhere: the file does not declare publications',
    'table public.archived: it inherits from plain',
    'table public.notes: its policies also apply to the owner',
  ]);
  // A function of another schema is called by its qualified name, even if the file declares it.
  expect(output).toContain('call: audit.record');
  expect(code).toBe(0);
});
