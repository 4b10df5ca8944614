// Views of the file through supabase-js: read, embedded, written where PostgreSQL can, and listed.
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';

let world: BackendWorld;
beforeAll(async () => {
  world = await startBackendWorld(`
version: 1
tables:
  lists:
    rls: [{ operations: [select, insert], to: authenticated, check: owner = auth.uid() }]
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: name, type: text, required: true }
      - { name: owner, type: uuid, default: { sql: auth.uid() } }
  todos:
    rls: [{ operations: [all], to: authenticated, using: owner = auth.uid(), with_check: owner = auth.uid() }]
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: list_id, foreign_key: { references: lists.id } }
      - { name: title, type: text, required: true }
      - { name: done, type: boolean, default: false }
      - { name: owner, type: uuid, default: { sql: auth.uid() } }
views:
  open_todos:
    query: select id, list_id, title from todos where not done
    check_option: local
    grants: { authenticated: [select, insert, update, delete] }
  titles: { query: select title from open_todos, comment: Titles only }
  hidden: { query: select 1 as one, expose: false }
rpc:
  newest:
    language: sql
    volatility: stable
    returns: { type: setof open_todos }
    body: select * from open_todos order by id desc limit 1
`);
});
afterAll(() => world?.close());

const client = (): SupabaseClient =>
  createClient(world.url, world.keys.publishable, {
    auth: { persistSession: false, autoRefreshToken: false },
  });
const signedUp = async (email: string): Promise<SupabaseClient> => {
  const made = client();
  expect((await made.auth.signUp({ email, password: 'correct horse battery' })).error).toBeNull();
  return made;
};

test('each caller reads and writes their own rows through it, with embeds in both directions', async () => {
  const ann = await signedUp('ann@example.com');
  const bob = await signedUp('bob@example.com');
  await ann.from('lists').insert({ id: 1, name: 'Home' });
  const made = await ann.from('open_todos').insert({ id: 1, list_id: 1, title: 'Wash' }).select();
  expect(made).toMatchObject({ error: null, data: [{ id: 1, list_id: 1, title: 'Wash' }] });
  expect((await ann.from('open_todos').select('title, lists(name)')).data).toEqual([
    { title: 'Wash', lists: { name: 'Home' } },
  ]);
  expect((await ann.from('lists').select('name, open_todos(title)').eq('open_todos.id', 1)).data).toEqual([
    { name: 'Home', open_todos: [{ title: 'Wash' }] },
  ]);
  expect((await bob.from('open_todos').select()).data).toEqual([]);
  expect((await ann.rpc('newest')).data).toEqual([{ id: 1, list_id: 1, title: 'Wash' }]);
  expect((await ann.from('open_todos').update({ title: 'Dry' }).eq('id', 1).select('title')).data).toEqual([
    { title: 'Dry' },
  ]);
  expect((await ann.from('titles').select()).data).toEqual([{ title: 'Dry' }]);
  expect((await ann.from('titles').delete().eq('title', 'Dry')).error?.code).toBe('42501');
  expect((await ann.from('open_todos').delete().eq('id', 1)).error).toBeNull();
  expect((await ann.from('todos').select()).data).toEqual([]);
});

test('the description lists the served relations with their comments', async () => {
  const response = await fetch(`${world.url}/rest/v1/`, {
    headers: { apikey: world.keys.secret, accept: 'application/vnd.oai.openapi+json' },
  });
  const description: unknown = await response.json();
  expect(description).toMatchObject({
    paths: { '/open_todos': { get: {}, post: {} }, '/titles': { get: {} } },
    components: { schemas: { titles: { description: 'Titles only' } } },
  });
  expect(description).not.toHaveProperty(['paths', '/hidden']);
  expect((await client().from('hidden').select()).error?.code).toBe('PGRST205');
});
