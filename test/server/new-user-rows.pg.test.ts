// Each new user gets a row, however the user signs up, and there is no user without one.
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { raw } from '../../src/postgres/sql.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { collectLog } from '../support/collect-log.ts';

const { log, lines } = collectLog();
let world: BackendWorld;
beforeAll(async () => {
  world = await startBackendWorld(
    `
version: 1
auth: { allow_anonymous: true }
tables:
  profiles:
    on_new_user: { id: id, name: "coalesce(raw_user_meta_data ->> 'name', email, 'Anonymous')" }
    rls:
      - { operations: [all], using: id = auth.uid() }
    fields:
      - { name: id, primary_key: true, foreign_key: { references: auth.users.id, on_delete: cascade } }
      - { name: name, type: text, required: true, check: name <> 'Refused' }
      - { name: updated_at, type: timestamptz, on_update: now() }
`,
    { log },
  );
});
afterAll(() => world?.close());

const client = (key = world.keys.publishable): SupabaseClient =>
  createClient(world.url, key, { auth: { persistSession: false, autoRefreshToken: false } });

const PASSWORD = 'correct horse battery';

test('users who sign up by password, anonymously or through an administrator get a row', async () => {
  const ann = client();
  await ann.auth.signUp({ email: 'ann@example.com', password: PASSWORD, options: { data: { name: 'Ann' } } });
  expect((await ann.from('profiles').select('name, updated_at')).data).toEqual([
    { name: 'Ann', updated_at: null },
  ]);
  const anonymous = client();
  expect((await anonymous.auth.signInAnonymously()).error).toBeNull();
  expect((await anonymous.from('profiles').select('name')).data).toEqual([{ name: 'Anonymous' }]);
  const made = await client(world.keys.secret).auth.admin.createUser({
    email: 'bob@example.com',
    password: PASSWORD,
    email_confirm: true,
  });
  expect(made.error).toBeNull();
  const bob = client();
  await bob.auth.signInWithPassword({ email: 'bob@example.com', password: PASSWORD });
  expect((await bob.from('profiles').select('name')).data).toEqual([{ name: 'bob@example.com' }]);
});

test('a changed row gets a time stamp, even if the request contains another one', async () => {
  const cat = client();
  await cat.auth.signUp({ email: 'cat@example.com', password: PASSWORD });
  const row = cat
    .from('profiles')
    .update({ name: 'Cat', updated_at: '2001-01-01T00:00:00Z' })
    .neq('name', '');
  const { data } = await row.select('updated_at').single();
  expect(new Date(data?.updated_at ?? 0).getFullYear()).toBeGreaterThan(2020);
});

test('a row that is refused refuses the user', async () => {
  const { error } = await client().auth.signUp({
    email: 'refused@example.com',
    password: PASSWORD,
    options: { data: { name: 'Refused' } },
  });
  expect(error).toMatchObject({ status: 500 });
  const found = await world.owner.query(raw(`select from auth.users where email = 'refused@example.com'`));
  expect(found).toEqual([]);
  expect(JSON.stringify(lines())).toMatch(/svc_meta\.new_user_[0-9a-f]{8}|svc_new_user_profiles/);
});

test('a row that a user trigger has inserted is not reported as a registered address', async () => {
  await world.owner.query(
    raw(`
      create table claims (name text primary key);
      create function claim() returns trigger language plpgsql security definer set search_path = public as
        $$ begin insert into claims values ('only one'); return new; end $$;
      create trigger claim after insert on auth.users for each row execute function claim();`),
  );
  const emails = ['first@example.com', 'second@example.com'];
  const [first, second] = [client(), client()];
  expect((await first.auth.signUp({ email: emails[0] ?? '', password: PASSWORD })).error).toBeNull();
  const { error } = await second.auth.signUp({ email: emails[1] ?? '', password: PASSWORD });
  expect(error?.status).toBe(500);
});
