// The recipes of docs/policies.md, tested by callers with and without access.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../src/postgres/sql.ts';
import { startBackendWorld, type BackendWorld } from './support/backend-world.ts';

const PAGE = readFileSync(join(import.meta.dirname, '../docs/policies.md'), 'utf8');
const RECIPES = new Map(
  PAGE.split(/^## /m)
    .slice(1)
    .map((section) => [section.split('\n', 1)[0] ?? '', /^```yaml\n(.*?)^```$/ms.exec(section)?.[1] ?? '']),
);
const PASSWORD = 'correct horse battery';

type User = { readonly id: string; readonly client: SupabaseClient };
type People = {
  readonly ann: User;
  readonly bob: User;
  readonly anon: SupabaseClient;
  readonly world: BackendWorld;
};

/** Checks of each recipe. */
const CHECKS: Readonly<Record<string, (people: People) => Promise<void>>> = {
  'Restrict rows to their owner': async ({ ann, bob, anon }) => {
    expect((await ann.client.from('notes').insert({ body: 'mine' })).error).toBeNull();
    expect(await count(ann.client, 'notes')).toBe(1);
    expect(await count(bob.client, 'notes')).toBe(0);
    expect(await count(anon, 'notes')).toBe(0);
    expect((await bob.client.from('notes').insert({ body: 'forged', owner_id: ann.id })).error?.code).toBe(
      '42501',
    );
    expect((await anon.from('notes').insert({ body: 'nobody' })).error).not.toBeNull();
    expect((await bob.client.from('notes').update({ body: 'x' }).neq('body', '').select()).data).toEqual([]);
  },
  'Public rows that only the owner can change': async ({ ann, bob, anon }) => {
    await ann.client.from('posts').insert([
      { title: 'draft', published: false },
      { title: 'out', published: true },
    ]);
    expect(await count(ann.client, 'posts')).toBe(2);
    expect(await count(anon, 'posts')).toBe(1);
    expect((await bob.client.from('posts').delete().eq('title', 'out').select()).data).toEqual([]);
    expect((await anon.from('posts').insert({ title: 'x' })).error?.code).toBe('42501');
  },
  'Teams with roles': async ({ ann, bob, anon }) => {
    const { data: team } = await ann.client.rpc('create_team', { name: 'One' });
    expect((await anon.rpc('create_team', { name: 'Two' })).error).not.toBeNull();
    expect((await ann.client.from('documents').insert({ team_id: team, title: 'plan' })).error).toBeNull();
    expect([await count(bob.client, 'documents'), await count(bob.client, 'teams')]).toEqual([0, 0]);
    expect(
      (await bob.client.from('members').insert({ team_id: team, user_id: bob.id, role: 'admin' })).error
        ?.code,
    ).toBe('42501');
    await ann.client.from('members').insert({ team_id: team, user_id: bob.id });
    expect(await count(bob.client, 'documents')).toBe(1);
    expect((await bob.client.from('documents').insert({ team_id: team, title: 'x' })).error?.code).toBe(
      '42501',
    );
    expect(
      (await bob.client.from('members').update({ role: 'admin' }).eq('user_id', bob.id).select()).data,
    ).toEqual([]);
    await ann.client.from('members').update({ role: 'editor' }).eq('user_id', bob.id);
    expect((await bob.client.from('documents').insert({ team_id: team, title: 'y' })).error).toBeNull();
    expect((await bob.client.from('documents').delete().eq('title', 'plan').select()).data).toEqual([]);
    await ann.client.from('members').delete().eq('user_id', bob.id);
    expect(await count(bob.client, 'documents')).toBe(0);
  },
  Invitations: async ({ ann, bob, anon, world }) => {
    const { data: room } = await ann.client.from('rooms').insert({}).select().single();
    const invite = async (email: string): Promise<string> => {
      const { data, error } = await ann.client
        .from('invitations')
        .insert({ room_id: room.id, email })
        .select('token')
        .single();
      expect(error).toBeNull();
      return String(data?.token);
    };
    const token = await invite('Bob@example.com');
    expect([await count(bob.client, 'invitations'), await count(anon, 'invitations')]).toEqual([0, 0]);
    const secondInvitation = await invite('eve@example.com');
    expect((await bob.client.rpc('accept_invitation', { token: secondInvitation })).error?.message).toMatch(
      /not for you/,
    );
    const late = await invite('bob@example.com');
    await world.owner.query(sql`update invitations set expires_at = now() where token = ${late}`);
    expect((await bob.client.rpc('accept_invitation', { token: late })).error?.message).toMatch(/expired/);
    expect((await bob.client.rpc('accept_invitation', { token })).data).toBe(room.id);
    expect(await count(bob.client, 'guests')).toBe(1);
    expect((await bob.client.rpc('accept_invitation', { token })).error).not.toBeNull();
    expect((await bob.client.from('guests').insert({ room_id: room.id, user_id: ann.id })).error?.code).toBe(
      '42501',
    );
  },
  'Share rows by a secret link': async ({ ann, anon }) => {
    const token = crypto.randomUUID();
    await ann.client.from('albums').insert({ title: 'summer', link: token });
    expect(await count(anon, 'albums')).toBe(0);
    expect((await anon.rpc('shared_album', { token })).data).toMatchObject([{ title: 'summer' }]);
    expect((await anon.rpc('shared_album', { token: crypto.randomUUID() })).data).toEqual([]);
    await ann.client.from('albums').update({ link: null }).eq('title', 'summer');
    expect((await anon.rpc('shared_album', { token })).data).toEqual([]);
  },
  'Soft delete': async ({ ann, bob }) => {
    await ann.client.from('tasks').insert({ title: 'wash' });
    const { error } = await ann.client.from('tasks').update({ deleted_at: 'now' }).eq('title', 'wash');
    expect(error).toBeNull();
    expect([await count(ann.client, 'open_tasks'), await count(ann.client, 'tasks')]).toEqual([0, 1]);
    expect((await ann.client.from('tasks').delete().eq('title', 'wash').select()).data).toEqual([]);
    await ann.client.from('tasks').update({ deleted_at: null }).eq('title', 'wash');
    expect([await count(ann.client, 'open_tasks'), await count(bob.client, 'open_tasks')]).toEqual([1, 0]);
  },
  'Require a second factor': async ({ ann, world }) => {
    expect((await ann.client.from('payouts').insert({ amount: 5 })).error?.code).toBe('42501');
    const strong = await world.token({ sub: ann.id, role: 'authenticated', aal: 'aal2' });
    const sure = createClient(world.url, world.keys.publishable, {
      auth: { persistSession: false },
      global: { headers: { authorization: `Bearer ${strong}` } },
    });
    expect((await sure.from('payouts').insert({ amount: 5 })).error).toBeNull();
    expect(await count(ann.client, 'payouts')).toBe(1);
  },
  'A folder for each user': async ({ ann, bob, anon, world }) => {
    const own = `${ann.id}/a.txt`;
    expect((await ann.client.storage.from('private').upload(own, 'mine')).error).toBeNull();
    expect((await ann.client.storage.from('private').upload('a.txt', 'no')).error).not.toBeNull();
    expect((await bob.client.storage.from('private').download(own)).error).not.toBeNull();
    expect(
      (await bob.client.storage.from('private').upload(`${ann.id}/b.txt`, 'forged')).error,
    ).not.toBeNull();
    expect((await anon.storage.from('private').list(ann.id)).data).toEqual([]);
    await ann.client.storage.from('avatars').upload(own, 'face');
    const shown = await fetch(`${world.url}/storage/v1/object/public/avatars/${own}`);
    expect(await shown.text()).toBe('face');
    expect((await bob.client.storage.from('avatars').remove([own])).data).toEqual([]);
  },
};

async function count(client: SupabaseClient, table: string): Promise<number | null> {
  return (await client.from(table).select('*', { count: 'exact', head: true })).count;
}

test('each recipe has a check, and each check a recipe', () => {
  expect([...RECIPES.keys()]).toEqual(Object.keys(CHECKS));
});

describe.each([...RECIPES])('%s', (name, yaml) => {
  let world: BackendWorld;
  const createAnonymous = (): SupabaseClient =>
    createClient(world.url, world.keys.publishable, {
      auth: { persistSession: false, autoRefreshToken: false },
    });
  const signUp = async (name: string): Promise<User> => {
    const client = createAnonymous();
    const { data, error } = await client.auth.signUp({ email: `${name}@example.com`, password: PASSWORD });
    if (error) throw error;
    return { id: data.user?.id ?? '', client };
  };
  beforeAll(async () => {
    // Users sign up with an email address in each recipe.
    world = await startBackendWorld(yaml.includes('\nauth:') ? yaml : `${yaml}auth: { email: {} }\n`);
  });
  afterAll(async () => {
    await world?.close();
  });

  test('allows and rejects as documented', async () => {
    await CHECKS[name]?.({
      world,
      ann: await signUp('ann'),
      bob: await signUp('bob'),
      anon: createAnonymous(),
    });
  });
});
