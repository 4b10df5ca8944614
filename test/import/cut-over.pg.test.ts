// From the first copy to the cut-over, with the command line: the API is closed before the cut-over and open after
// it.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { raw } from '../../src/postgres/sql.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { runSvc } from '../support/svc-process.ts';
import { createTypicalProject, IDS, type SupabaseProject } from './supabase-project.ts';

const FILE = `
version: 1
tables:
  visits:
    fields: [{ name: page, type: text }, { name: at, type: timestamptz }]
    rls: [{ operations: [select], using: "true" }]
  notes:
    fields: [{ name: id, type: bigint, primary_key: true }, { name: text, type: text }]
    rls: []
`;

let project: SupabaseProject;
let world: BackendWorld;

beforeAll(async () => {
  project = await createTypicalProject();
  await project.query(`
    create table public.notes (id bigint primary key, text text);
    insert into public.notes values (1, 'first'), (2, 'with "quotes", and commas'), (3, 'third');
    insert into auth.sessions (id, user_id, created_at, updated_at, aal, refresh_token_hmac_key, refresh_token_counter)
    values (gen_random_uuid(), '${IDS.ben}', now(), now(), 'aal1', '${Buffer.alloc(32, 7).toString('base64url')}', 3)`);
  world = await startBackendWorld(FILE);
});
afterAll(async () => {
  await world?.close();
  await project?.drop();
});

const svc = async (...args: string[]) =>
  await runSvc(['import', 'supabase', ...args], {
    env: {
      SVC_DATABASE_URL: world.databaseUrl,
      SVC_IMPORT_SOURCE_URL: project.url,
      SVC_SECRET_KEY: world.keys.secret,
      SVC_PUBLISHABLE_KEY: world.keys.publishable,
    },
  });

const get = async (path: string): Promise<{ status: number; text: string }> => {
  const response = await fetch(`${world.url}${path}`, { headers: { apikey: world.keys.publishable } });
  return { status: response.status, text: await response.text() };
};

test('an import can be removed completely', async () => {
  expect((await svc('verify')).output).toContain('Nothing has been copied yet');
  expect((await svc('copy')).output).toContain('users: 3 added, 0 changed, 0 removed');
  // A file that the import has copied.
  await world.owner.query(
    raw(`insert into storage.buckets (id, name) values ('brought', 'brought');
      with file as (insert into storage.objects (bucket_id, name) values ('brought', 'a.txt') returning id)
      insert into svc_meta.import_row (kind, id, digest) select 'object', id, '' from file`),
  );
  // The next import copies the same sessions, so they must not be recorded as ended.
  const [copied] = await world.owner.query<{ sessions: number }>(
    raw('select count(*)::int as sessions from auth.sessions'),
  );
  expect(copied?.sessions).toBeGreaterThan(0);
  expect((await svc('abandon')).code).toBe(2);
  expect((await svc('abandon', '--yes')).code).toBe(0);
  const [left] = await world.owner.query(
    raw(`select (select count(*) from auth.users) + (select count(*) from public.visits)
      + (select count(*) from storage.objects) + (select count(*) from auth.ended_sessions)
      + (select count(*) from svc_meta.import) + (select count(*) from svc_meta.import_row) as left`),
  );
  expect(left).toEqual({ left: '0' });
  await expect.poll(async () => (await get('/rest/v1/visits')).status).toBe(200);
});

test('nothing is served before the cut-over, and the response contains the reason', async () => {
  await project.query(`
    insert into auth.mfa_factors (id, user_id, factor_type, status, created_at, updated_at, phone)
    values (gen_random_uuid(), '${IDS.ann}', 'phone', 'verified', now(), now(), '491234')`);
  const copied = await svc('copy');
  expect(copied.output).toMatch(
    /^1 second factors were not copied\. .*:\n {2}phone factor \S+ of ann@example.com: only authenticator apps/m,
  );
  expect(copied.code).toBe(0);
  await expect.poll(async () => (await get('/rest/v1/visits')).status).toBe(503);
  expect((await get('/rest/v1/visits')).text).toContain('svc import supabase cut-over');
  expect((await get('/auth/v1/settings')).status).toBe(503);
  const ready = await get('/ready');
  expect(ready.status).toBe(503);
  expect(ready.text).toContain('import that is not cut over');
  expect((await get('/live')).status).toBe(200);
  const second = await startBackendWorldAt(world);
  expect(second).toBe(503);
});

/** State of an instance that starts during the import. */
async function startBackendWorldAt({ options }: BackendWorld): Promise<number> {
  const { startBackend } = await import('../../src/server/backend.ts');
  const backend = await startBackend(options);
  const { status } = await fetch(`${backend.url}/rest/v1/visits`, {
    headers: { apikey: world.keys.publishable },
  });
  await backend.stop();
  return status;
}

test('verify finds no difference after a copy, and names later differences', async () => {
  expect(await svc('verify')).toMatchObject({ code: 0, output: 'Both sides are equal.\n' });
  const [state] = await world.owner.query(raw('select state from svc_meta.import'));
  expect(state).toEqual({ state: 'ready' });
  await project.query(`
    insert into public.visits values ('late', now());
    update auth.users set banned_until = 'infinity' where id = '${IDS.ben}'`);
  await world.owner.query(raw(`insert into auth.users (email) values ('own@example.com')`));
  const { code, output } = await svc('verify');
  expect(code).toBe(1);
  expect(output).toContain('user: 0 are not here yet, 1 differ, 0 are gone');
  expect(output).toContain('table public.visits: rows differ');
  expect(output).toContain('1 users are here whom the source does not have');
  await world.owner.query(raw(`delete from auth.users where email = 'own@example.com'`));
});

test('a user who would lose the second factor must be confirmed', async () => {
  const refused = await svc('cut-over', '--yes');
  expect(refused.code).not.toBe(0);
  expect(refused.output).toContain(`1 users have a second factor`);
  expect(refused.output).toContain(IDS.ann);
  expect((await get('/rest/v1/visits')).status).toBe(503);
});

test('changes since the cut-over can be listed only after it', async () => {
  const { code, output } = await svc('changes');
  expect(code).not.toBe(0);
  expect(output).toContain('The cut-over is not done');
});

test('the cut-over copies the last changes and opens the database', async () => {
  expect((await svc('cut-over')).code).toBe(2);
  const { code, output } = await svc('cut-over', '--yes', '--uncarried-factors', 'drop');
  expect(output).toContain('public.visits: 1001 added, 0 changed, 1000 removed');
  expect(code).toBe(0);
  await expect.poll(async () => (await get('/rest/v1/visits')).status).toBe(200);
  const client = createClient(world.url, world.keys.publishable, { auth: { persistSession: false } });
  const { data, error } = await client.auth.signInWithPassword({
    email: 'ann@example.com',
    password: 'ann-password',
  });
  expect(error).toBeNull();
  expect(data.user?.id).toBe(IDS.ann);
  await client.auth.stopAutoRefresh();
  for (const again of [['copy'], ['verify'], ['cut-over', '--yes'], ['abandon', '--yes']]) {
    const late = await svc(...again);
    expect(late.output).toContain('The cut-over is done');
    expect(late.code).not.toBe(0);
  }
});

test('after the cut-over, changes lists inserted, updated and deleted rows, and no unchanged row', async () => {
  const out = mkdtempSync(join(tmpdir(), 'svc-changes-'));
  const read = (name: string): string => readFileSync(join(out, name), 'utf8');
  try {
    // The sign-in above has rehashed a password.
    expect((await svc('changes')).output.split('\n')[0]).toBe('auth.users: 0 inserted, 1 updated, 0 deleted');
    await world.owner.query(
      raw(`insert into public.notes values (4, 'new here');
        update public.notes set text = 'other' where id = 2; delete from public.notes where id = 3;
        insert into public.visits select 'late', at from public.visits where page = 'late';
        insert into auth.users (email) values ('since@example.com');
        delete from auth.users where id = '${IDS.cat}'`),
    );
    const { code, output } = await svc('changes', '--out', out);
    expect(output).toBe(
      `auth.users: 1 inserted, 1 updated, 1 deleted
public.notes: 1 inserted, 1 updated, 1 deleted
public.visits: 1 inserted, 0 updated, 0 deleted
The rows are in ${out}, with password hashes: keep them secret.
`,
    );
    expect(code).toBe(0);
    expect(readdirSync(out).sort()).toEqual([
      'auth.users.deleted.csv',
      'auth.users.inserted.csv',
      'auth.users.updated.csv',
      'public.notes.deleted.csv',
      'public.notes.inserted.csv',
      'public.notes.updated.csv',
      'public.visits.inserted.csv',
    ]);
    expect(read('public.notes.inserted.csv')).toBe('id,text\n4,new here\n');
    expect(read('public.notes.updated.csv')).toBe('id,text\n2,other\n');
    expect(read('public.notes.deleted.csv')).toBe('id\n3\n');
    expect(read('auth.users.deleted.csv')).toBe(`id,email\n${IDS.cat},\n`);
    expect(read('auth.users.updated.csv')).toContain('ann@example.com');
    expect(statSync(join(out, 'auth.users.updated.csv')).mode & 0o077).toBe(0);
    const again = await svc('changes', '--out', out);
    expect(again.code).not.toBe(0);
    expect(again.output).toContain('has files already');
  } finally {
    rmSync(out, { recursive: true });
  }
});
