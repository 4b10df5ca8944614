// The report of an import: it lists what can be moved and what cannot, and changes neither side.
import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { runSvc } from '../support/svc-process.ts';
import { addUser, createTypicalProject, IDS, TOTP_SECRET, type SupabaseProject } from './supabase-project.ts';
import pg from 'pg';

let project: SupabaseProject;
let target: TestDatabase;
const directory = mkdtempSync(join(tmpdir(), 'svc-import-'));

beforeAll(async () => {
  project = await createTypicalProject();
  await project.query(`
    insert into auth.mfa_factors (id, user_id, friendly_name, factor_type, status, created_at, updated_at, secret)
    values (gen_random_uuid(), '${IDS.ann}', 'open app', 'totp', 'verified', now(), now(), '${TOTP_SECRET}'),
      (gen_random_uuid(), '${IDS.ben}', 'closed app', 'totp', 'verified', now(), now(), '{"key_id": "lost"}')`);
  target = await createDatabase();
  await onTarget('create table public.items (id uuid primary key, title text, list_id bigint)');
});
afterAll(async () => {
  await project.drop();
  await target.drop();
  rmSync(directory, { recursive: true, force: true });
});

async function onTarget(text: string): Promise<void> {
  const client = new pg.Client({ connectionString: target.url });
  await client.connect();
  await client.query(text);
  await client.end();
}

async function report(env: Record<string, string>, ...args: string[]) {
  return await runSvc(['import', 'supabase', 'report', ...args], {
    cwd: directory,
    env: { ...process.env, ...env },
  });
}

/** Returns everything in a database that an import could have changed. */
async function readSnapshot(url: string): Promise<string> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows: catalog } = await client.query(`
    select oid::regclass::text as name, relacl::text, relowner,
      (select array_agg(attname || ' ' || atttypid::text order by attnum) from pg_attribute
        where attrelid = c.oid) as columns
    from pg_class c where relnamespace::regnamespace::text !~ '^(pg_|information_schema)' order by 1`);
  const contents = [];
  for (const { name } of catalog.filter((row) => !/_idx|_key|_pkey|_seq/.test(row.name as string))) {
    const { rows } = await client
      .query(`select md5(string_agg(t::text, ',' order by t::text)) as hash from ${name as string} t`)
      .catch(() => ({ rows: [] }));
    contents.push([name, rows]);
  }
  await client.end();
  return JSON.stringify([catalog, contents]);
}

test('the report lists what moves and what does not, and changes neither source nor target', async () => {
  const before = [await readSnapshot(project.url), await readSnapshot(target.url)];
  const { code, output } = await report({ SVC_IMPORT_SOURCE_URL: project.url, SVC_DATABASE_URL: target.url });
  expect(output).toContain('Nothing was changed.');
  expect(code).toBe(0);
  expect([await readSnapshot(project.url), await readSnapshot(target.url)]).toEqual(before);
  const moves = output.slice(0, output.indexOf('To decide'));
  expect(moves).toContain('  3 users\n');
  expect(moves).toContain('  1 passwords as bcrypt\n');
  expect(moves).toContain('  1 passwords as argon2\n');
  expect(moves).toContain('  2 rows of public.items\n');
  expect(moves).toContain('  1 second factors\n');
  expect(output).toMatch(/To decide\n {2}1 anonymous users: their role is anon here/);
  expect(output).toContain(
    '  1 second factors: no key of SVC_IMPORT_ENCRYPTION_KEYS opens it: a user who has',
  );
  expect(output).toContain('  totp factor "closed app" of ben@example.com: stays behind\n');
  const stays = output.slice(output.indexOf('Stays behind'));
  expect(stays).toContain('public.items.price: the target has no such column');
  expect(stays).toContain('public.lists: the target has no such table: declare it in svc.yaml');
  expect(stays).toContain('files of bucket pictures (0 bytes): the target has no such bucket');
  expect(stays).toContain('policy on storage.objects: own folder: svc import supabase prepare writes it');
});

test('a table that the role may not read is reported, and counts are current', async () => {
  const role = `reader_${process.pid}`;
  await project.query(`
    create role ${role} login password 'reader-secret' bypassrls;
    grant usage on schema auth, storage to ${role};
    grant select on all tables in schema auth, storage to ${role};
    grant select on public.items to ${role};`);
  try {
    await addUser(project, {
      id: IDS.ann.replace('00a', '0aa'),
      email: 'ssO@example.com',
      more: { is_sso_user: true },
    });
    const url = new URL(project.url);
    url.username = role;
    url.password = 'reader-secret';
    const { code, output } = await report(
      { SVC_IMPORT_SOURCE_URL: url.href, SVC_DATABASE_URL: target.url },
      '--json',
    );
    expect(code).toBe(0);
    const { moves, decide, stays } = (
      JSON.parse(output) as { data: Record<string, Array<Record<string, unknown>>> }
    ).data;
    expect(moves).toContainEqual({ what: 'users', count: 4 });
    expect(decide).toContainEqual(expect.objectContaining({ what: 'single sign-on users', count: 1 }));
    expect(stays).toContainEqual({
      what: 'public.lists',
      why: 'the role of the source may not read it: grant select on it',
    });
    expect(output).not.toContain('reader-secret');
  } finally {
    await project.query(`drop owned by ${role}; drop role ${role}`);
  }
});

test('a file that pg_restore cannot read is rejected with the command that creates one', async () => {
  const { code, output } = await report({ SVC_DATABASE_URL: target.url }, '--from', import.meta.filename);
  expect(code).toBe(78);
  expect(output).toContain('is not a dump that pg_restore can read');
  expect(output).toContain('pg_dump --format=custom');
});

test('a password in an argument and a database that is not a project are rejected', async () => {
  const withPassword = await report({}, '--from', 'postgres://me:hush@127.0.0.1/x');
  expect(withPassword.code).toBe(2);
  expect(withPassword.output).toContain('--from contains a password');
  expect(withPassword.output).not.toContain('hush');
  const { code, output } = await report({ SVC_IMPORT_SOURCE_URL: target.url });
  expect(code).not.toBe(0);
  expect(output).toContain('is not a Supabase project');
  const nothing = await report({});
  expect(nothing.output).toContain('Set SVC_IMPORT_SOURCE_URL to its connection string');
});

test('prepare writes a valid svc.yaml once, and does not change the source', async () => {
  const before = await readSnapshot(project.url);
  const prepare = async (...args: string[]) =>
    await runSvc(['import', 'supabase', 'prepare', ...args], {
      cwd: directory,
      env: { ...process.env, SVC_IMPORT_SOURCE_URL: project.url },
    });
  const printed = await prepare();
  expect(printed.output).toContain('storage:\n  papers:');
  expect(printed.output).toContain('references: auth.users.id');
  expect(printed.code).toBe(0);
  const written = await prepare('--out', 'pulled.yaml');
  expect(written.output).toContain('wrote pulled.yaml');
  const { code, output } = await runSvc(['validate', '-c', 'pulled.yaml'], { cwd: directory });
  // No caller can reach these tables at the source.
  expect(output).not.toContain('no rls key');
  expect(output).toContain('4 tables, 2 buckets');
  expect(code).toBe(0);
  appendFileSync(join(directory, 'pulled.yaml'), '# my own\n');
  expect((await prepare('--out', 'pulled.yaml')).output).toContain('already exists with other content');
  expect(await readSnapshot(project.url)).toBe(before);
});
