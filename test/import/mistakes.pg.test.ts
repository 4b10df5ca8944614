// Common mistakes before an import: each is reported with its cause, place and remedy, nothing is left behind, and no
// password is shown.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readSource } from '../../src/import/source.ts';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';
import { Problem } from '../../src/problem/problem.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { startPgBouncer, withoutPgBouncer } from '../support/peers/pgbouncer.ts';
import { runSvc } from '../support/svc-process.ts';
import { createTypicalProject, type SupabaseProject } from './supabase-project.ts';

let project: SupabaseProject;
let target: TestDatabase;
const directory = mkdtempSync(join(tmpdir(), 'svc-mistakes-'));

beforeAll(async () => {
  project = await createTypicalProject();
  target = await createDatabase();
});
afterAll(async () => {
  await project?.drop();
  await target?.drop();
  rmSync(directory, { recursive: true, force: true });
});

const svc = async (source: string, ...args: string[]) =>
  await runSvc(['import', 'supabase', ...args], {
    cwd: directory,
    env: {
      SVC_DATABASE_URL: target.url,
      SVC_IMPORT_SOURCE_URL: source,
      SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
      SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
    },
  });

async function onTarget(text: string): Promise<Array<Record<string, unknown>>> {
  const client = new pg.Client({ connectionString: target.url });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text)).rows;
  } finally {
    await client.end();
  }
}

const SCHEMAS = `select nspname as name from pg_namespace where nspname !~ '^(pg_|information_schema)' order by 1`;

/** Returns the address of the project with one wrong part. */
function wrong(change: (url: URL) => void): string {
  const url = new URL(project.url);
  change(url);
  return url.href;
}

async function findProblem(url: string): Promise<Problem | undefined> {
  return await readSource(parseAddress(url), async () => undefined).catch((error: unknown) => {
    if (error instanceof Problem) return error;
    throw error;
  });
}

test.each<[string, (url: URL) => void, RegExp, RegExp]>([
  ['a closed port', (url) => (url.port = '1'), /ECONNREFUSED/, /Check host and port/],
  ['a host that is not there', (url) => (url.hostname = 'db.project.invalid'), /project\.invalid/, /IPv6/],
  ['a user or password', (url) => (url.username = 'nobody_here'), /"nobody_here"/, /\[YOUR-PASSWORD\]/],
  ['a database', (url) => (url.pathname = '/no_such_database'), /does not exist/, /called postgres/],
  ['the port of the pooler', (url) => (url.port = '6543'), /:6543/, /transaction pooler.*Session pooler/],
])('wrong: %s is reported with a remedy', async (_what, change, message, hint) => {
  const problem = await findProblem(wrong(change));
  expect(problem?.code).toBe('IMP-402');
  expect(problem?.message).toMatch(/^The source \S+ as \S+ cannot be reached: /);
  expect(problem?.message).toMatch(message);
  expect(problem?.hint).toMatch(hint);
});

test.skipIf(withoutPgBouncer !== undefined)(
  'a transaction pooler is refused, one in session mode is read',
  async () => {
    const options = { users: [project.url], ignoresOptions: true } as const;
    const [transaction, session, narrow] = await Promise.all([
      startPgBouncer({ ...options, mode: 'transaction', poolSize: 4 }),
      startPgBouncer({ ...options, mode: 'session', poolSize: 4 }),
      startPgBouncer({ ...options, mode: 'session', poolSize: 1, settings: ['query_wait_timeout = 1'] }),
    ]);
    try {
      const refused = await findProblem(transaction.through(project.url));
      expect(refused?.code).toBe('IMP-404');
      expect(refused?.hint).toContain('Session pooler');
      expect(await findProblem(session.through(project.url))).toBeUndefined();
      expect(await findProblem(narrow.through(project.url))).toBeUndefined();
    } finally {
      await Promise.all([transaction, session, narrow].map((item) => item.stop()));
    }
  },
);

test('an unreachable or unsuitable source leaves nothing at the target and shows no password', async () => {
  const refused = await svc(
    wrong((url) => {
      url.username = 'nobody_here';
      url.password = 'hush-hush';
    }),
    'copy',
  );
  expect(refused.output).toContain('error: The source ');
  expect(refused.output).not.toContain('hush');
  expect(refused.code).toBe(69);
  const unwritten = await svc('postgres://postgres:12/hush-hush@127.0.0.1:5432/postgres', 'copy');
  expect(unwritten.output).toMatch(/has an @ in the name of its database\n.*%2F/);
  expect(unwritten.output).not.toContain('hush');
  const swapped = await svc(target.url, 'copy');
  expect(swapped.output).toMatch(/is not a Supabase project.*\n.*Session pooler.*pg_dump writes them/);
  expect(swapped.code).not.toBe(0);
  expect(await onTarget(SCHEMAS)).toEqual([{ name: 'public' }]);
});

test('an unreachable target is reported with a remedy', async () => {
  const url = new URL(target.url);
  url.port = '1';
  const { code, output } = await runSvc(['import', 'supabase', 'report'], {
    cwd: directory,
    env: { SVC_DATABASE_URL: url.href, SVC_IMPORT_SOURCE_URL: project.url },
  });
  expect(code).toBe(69);
  expect(output).toContain('Cannot connect to the database at 127.0.0.1:1/');
  expect(output).toContain('Check SVC_DATABASE_URL');
});

test('commands about files in an empty directory report what is missing', async () => {
  const files = await svc(project.url, 'files', '--api', 'http://127.0.0.1:1');
  expect(files.output).toContain('There is no svc.yaml');
  const functions = await svc(project.url, 'functions', directory);
  expect(functions.output).toContain('there is no file svc.yaml');
  expect([files.code, functions.code]).not.toContain(0);
  expect(await onTarget(SCHEMAS)).toEqual([{ name: 'public' }]);
});

test('a table of another role at the target is reported, and nothing is written', async () => {
  await onTarget(`
    create table public.items (id int primary key); insert into public.items values (1);
    create table public.mine (id int); insert into public.mine values (7)`);
  const refused = await svc(project.url, 'copy');
  expect(refused.output).toContain(
    'error: The table public.items of the target belongs to the role postgres',
  );
  expect(refused.code).toBe(78);
  expect(await onTarget('select count(*)::int as users from auth.users')).toEqual([{ users: 0 }]);
  expect(await onTarget('select from svc_meta.import')).toEqual([]);
  await onTarget('drop table public.items');
  expect((await svc(project.url, 'copy')).output).toContain('users: 3 added');
  expect(await onTarget('select id from public.mine')).toEqual([{ id: 7 }]);
});

test('a role without access to the users of the source is rejected', async () => {
  const role = `blind_${process.pid}`;
  await project.query(`create role ${role} login password 'blind-secret'`);
  const url = wrong((item) => {
    item.username = role;
    item.password = 'blind-secret';
  });
  try {
    expect((await findProblem(url))?.code).toBe('IMP-410');
    await project.query(`grant usage on schema auth, storage to ${role}`);
    const { code, output } = await svc(url, 'copy');
    expect(output).toMatch(/error: The source cannot be read: permission denied for table \w+\n.*postgres/);
    expect(output).not.toContain('blind-secret');
    expect(code).toBe(78);
  } finally {
    await project.query(`drop owned by ${role}; drop role ${role}`);
  }
});
