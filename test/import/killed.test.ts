// kill -9 of the importing process in the middle of rows, of files and of the cut-over: nothing half done is left, nothing is
// served too early, and the same command again brings everything.
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createClient } from '@supabase/supabase-js';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { runSvc, spawnSvc } from '../support/svc-process.ts';
import { createTypicalProject, type SupabaseProject } from './supabase-project.ts';

const FILE = `
version: 1
storage: { pictures: { public: true } }
tables:
  notes:
    fields: [{ name: id, type: bigint, primary_key: true }, { name: text, type: text }]
    rls: [{ operations: [select], using: "true" }]
`;
const PICTURES = ['a.png', 'b.png', 'c.png'];

let project: SupabaseProject;
let world: BackendWorld;
/** Looks at the target, and stands in the way there. */
let target: pg.Client;
/** The files of the source. Those after the first wait while `isHeld`. */
let isHeld = false;
const held: ServerResponse[] = [];
const api = createServer((request, response) => {
  const isFirst = request.url?.endsWith(PICTURES[0] ?? '') ?? false;
  if (isHeld && !isFirst) held.push(response);
  else response.end(`bytes of ${request.url?.split('/').at(-1)}`);
});

beforeAll(async () => {
  project = await createTypicalProject();
  await project.query(`create table public.notes (id bigint primary key, text text);
    insert into public.notes select n, 'note ' || n from generate_series(1, 5000) n`);
  for (const name of PICTURES)
    await project.query(
      `insert into storage.objects (bucket_id, name, metadata, version) values ('pictures', $1, $2, gen_random_uuid())`,
      [name, JSON.stringify({ size: `bytes of ${name}`.length, mimetype: 'image/png' })],
    );
  await new Promise<void>((resolve) => api.listen(0, '127.0.0.1', resolve));
  world = await startBackendWorld(FILE, { files: { 'note.txt': '' } });
  target = new pg.Client(world.databaseUrl);
  await target.connect();
});
afterAll(async () => {
  await target?.end();
  await world?.close();
  await project?.drop();
  api.close();
});

function how() {
  return {
    cwd: world.directory,
    env: {
      SVC_DATABASE_URL: world.databaseUrl,
      SVC_IMPORT_SOURCE_URL: project.url,
      SVC_IMPORT_API_KEY: 'sb_secret_of_the_source',
      SVC_SECRET_KEY: world.keys.secret,
      SVC_PUBLISHABLE_KEY: world.keys.publishable,
    },
  };
}

const svc = async (...args: string[]) => await runSvc(['import', 'supabase', ...args], how());

/** Starts a command, waits until it is where it is to be killed, and kills it. */
async function killed(args: readonly string[], isThere: () => Promise<boolean>): Promise<void> {
  const { child, output } = spawnSvc(['import', 'supabase', ...args], how());
  const ended = new Promise((resolve) => child.once('close', resolve));
  await expect
    .poll(async () => child.exitCode ?? (await isThere()), { message: 'where it is to be killed' })
    .toBe(true);
  child.kill('SIGKILL');
  await ended;
  expect(child.signalCode, output()).toBe('SIGKILL');
}

/** Killed in the middle of its one transaction, where it notes down what it has written. */
async function killedBeforeItsCommit(...args: string[]): Promise<void> {
  await target.query('begin; lock table svc_meta.import_row in share mode');
  try {
    await killed(args, async () => {
      const { rows } = await target.query(
        `select from pg_locks where not granted and relation = 'svc_meta.import_row'::regclass`,
      );
      return rows.length > 0;
    });
  } finally {
    await target.query('rollback');
  }
  // What the server was told before is carried out to the end of that statement.
  await expect
    .poll(async () => await count(`pg_stat_activity where application_name = 'svc-import'`))
    .toBe(0);
}

async function count(from: string): Promise<number> {
  const { rows } = await target.query<{ count: number }>(`select count(*)::int as count from ${from}`);
  return rows[0]?.count ?? 0;
}

const visible = async (): Promise<number> => {
  const headers = { apikey: world.keys.publishable };
  return (await fetch(`${world.url}/rest/v1/notes?limit=1`, { headers })).status;
};

test('while rows are copied: nothing of the run stays, and the next one brings all', async () => {
  await killedBeforeItsCommit('copy');
  expect([await count('auth.users'), await count('public.notes'), await count('svc_meta.import')]).toEqual([
    0, 0, 0,
  ]);
  const { code, output } = await svc('copy');
  expect(output).toContain('users: 3 added, 0 changed, 0 removed');
  expect(output).toContain('public.notes: 5000 added, 0 changed, 0 removed');
  expect(code).toBe(0);
});

test('while files are copied: what arrived stays, the rest comes with the next run', async () => {
  const files = ['files', '--api', `http://127.0.0.1:${(api.address() as AddressInfo).port}`];
  isHeld = true;
  await killed(files, async () => {
    const there = await count(`storage.objects where name = '${PICTURES[0]}'`);
    return held.length > 0 && there === 1;
  });
  isHeld = false;
  for (const response of held) response.destroy();
  expect(await count('storage.objects')).toBe(1);
  expect((await svc(...files)).output).toContain('files: 2 copied, 1 unchanged, 0 removed');
  expect(await svc('verify')).toMatchObject({ code: 0, output: 'Both sides are equal.\n' });
});

test('in the cut-over: nothing is served yet, and the next cut-over takes the last changes over', async () => {
  await project.query(`insert into public.notes values (9001, 'late')`);
  await killedBeforeItsCommit('cut-over', '--yes');
  expect(await visible()).toBe(503);
  expect(await count('public.notes')).toBe(5000);
  const { code, output } = await svc('cut-over', '--yes');
  expect(output).toContain('public.notes: 1 added, 0 changed, 0 removed');
  expect(code).toBe(0);
  await expect.poll(visible).toBe(200);
  const client = createClient(world.url, world.keys.publishable);
  for (const name of PICTURES) {
    const { data, error } = await client.storage.from('pictures').download(name);
    expect(error).toBeNull();
    expect(await data?.text()).toBe(`bytes of ${name}`);
  }
});
