// A trigger of the file on auth.users, as Supabase projects write it: each user gets a row, however the user signs up,
// and there is no user if it raises an error.
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { raw } from '../../src/postgres/sql.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { collectLog } from '../support/collect-log.ts';
import { signInAt, startOidcPeer, type OidcPeer } from '../support/peers/oidc-peer.ts';

const REDIRECT = 'http://localhost:9/auth/v1/callback/acme';
const { log, lines } = collectLog();
let world: BackendWorld;
let peer: OidcPeer;
beforeAll(async () => {
  peer = await startOidcPeer([
    { client_id: 'svc', client_secret: 'a-secret-of-the-client', redirect_uris: [REDIRECT] },
  ]);
  world = await startBackendWorld(
    `
version: 1
auth:
  allow_anonymous: true
  redirect_urls: [https://app.example]
  oauth:
    acme: { client_id: svc, client_secret: a-secret-of-the-client, redirect_url: "${REDIRECT}",
      issuer: "${peer.issuer}" }
  triggers:
    - { name: on_auth_user_created, timing: after, events: [insert], call: handle_new_user }
tables:
  profiles:
    rls:
      - { operations: [select], using: public.may_read(id) }
    fields:
      - { name: id, primary_key: true, foreign_key: { references: auth.users.id, on_delete: cascade } }
      - { name: name, type: text, required: true }
rpc:
  handle_new_user:
    returns: { type: trigger }
    security: definer
    settings: { search_path: "" }
    body_file: sql/new_user.sql
  may_read:
    language: sql
    expose: false
    execute: [anon, authenticated]
    args: [{ name: id, type: uuid, required: true }]
    returns: { type: boolean }
    body: select may_read.id = auth.uid()
`,
    {
      log,
      files: {
        'sql/new_user.sql': `begin
  if new.raw_user_meta_data ->> 'name' = 'Refused' then
    raise exception 'this name is refused: Refused';
  end if;
  insert into public.profiles (id, name)
  values (new.id, coalesce(new.raw_user_meta_data ->> 'full_name', new.raw_user_meta_data ->> 'name',
    new.email, 'Anonymous'));
  return new;
end;
`,
      },
    },
  );
});
afterAll(async () => {
  await world?.close();
  await peer?.stop();
});

const client = (key = world.keys.publishable): SupabaseClient =>
  createClient(world.url, key, { auth: { persistSession: false, autoRefreshToken: false } });
const PASSWORD = 'correct horse battery';
const names = async (): Promise<unknown[]> =>
  (await world.owner.query(raw('select name from public.profiles order by name'))).map((row) => row['name']);

test('each user has a row: by password, anonymously, by an administrator and through a provider', async () => {
  const ann = client();
  await ann.auth.signUp({ email: 'ann@example.com', password: PASSWORD, options: { data: { name: 'Ann' } } });
  expect((await ann.from('profiles').select('name')).data).toEqual([{ name: 'Ann' }]);
  expect((await client().auth.signInAnonymously()).error).toBeNull();
  const made = await client(world.keys.secret).auth.admin.createUser({ email: 'bob@example.com' });
  expect(made.error).toBeNull();
  expect((await throughProvider('cat|cat@example.com|true')).hash).toContain('access_token=');
  expect(await names()).toEqual(['Ann', 'Anonymous', 'Name of cat', 'bob@example.com']);
});

/** Final URL of the browser. */
async function throughProvider(login: string): Promise<URL> {
  const begin = `${world.url}/auth/v1/authorize?provider=acme&redirect_to=${encodeURIComponent('https://app.example')}`;
  const first = await fetch(begin, { redirect: 'manual' });
  const back = new URL(await signInAt(first.headers.get('location') ?? '', login));
  const answer = await fetch(`${world.url}${back.pathname}${back.search}`, { redirect: 'manual' });
  return new URL(answer.headers.get('location') ?? '');
}

test('if it raises there is no user, the response contains the failure, and the log its place', async () => {
  const data = { name: 'Refused' };
  const email = 'refused@example.com';
  const signedUp = await client().auth.signUp({ email, password: PASSWORD, options: { data } });
  expect(signedUp.error).toMatchObject({
    status: 500,
    message: 'Database error saving new user',
  });
  const anonymous = await client().auth.signInAnonymously({ options: { data } });
  expect(anonymous.error?.status).toBe(500);
  const made = await client(world.keys.secret).auth.admin.createUser({ email, user_metadata: data });
  expect(made.error?.status).toBe(500);
  expect(
    await world.owner.query(raw(`select from auth.users where raw_user_meta_data ->> 'name' = 'Refused'`)),
  ).toEqual([]);
  const logged = JSON.stringify(lines());
  // The text that the function raises contains a value of the row.
  expect(logged).not.toContain('this name is refused: Refused');
  expect(logged).toMatch(/PL\/pgSQL function (public\.)?handle_new_user\(\) line \d+ at RAISE/);
});

test('a function that is not exposed cannot be called, but works in a policy', async () => {
  for (const key of [world.keys.publishable, world.keys.secret]) {
    for (const name of ['may_read', 'handle_new_user']) {
      const { error, status } = await client(key).rpc(name, { id: '00000000-0000-0000-0000-000000000000' });
      expect([status, error?.code]).toEqual([404, 'PGRST202']);
    }
  }
  const types = await fetch(`${world.url}/rest/v1/`, { headers: { apikey: world.keys.secret } });
  expect(await types.text()).not.toMatch(/may_read|handle_new_user/);
});
