// The unmodified public client library, oldest supported and newest, against a server started from the command line.
import * as newest from '@supabase/supabase-js';
import * as oldest from 'supabase-js-2.107';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTodoServer, type TodoServer } from '../support/todo-project.ts';

let svc: TodoServer;

beforeAll(async () => {
  svc = await startTodoServer();
});

afterAll(async () => {
  await svc?.stop();
});

let serial = 0;
const anEmail = (): string => `user${(serial += 1)}@example.com`;

describe.each([
  ['2.107', oldest.createClient as unknown as typeof newest.createClient],
  ['newest', newest.createClient],
])('supabase-js %s', (_version, createClient) => {
  const client = (key = svc.publishableKey): newest.SupabaseClient =>
    createClient(svc.url, key, { auth: { persistSession: false, autoRefreshToken: false } });

  async function aUser(): Promise<{
    client: newest.SupabaseClient;
    id: string;
    email: string;
    password: string;
  }> {
    const [email, password] = [anEmail(), 'correct horse battery'];
    const own = client();
    const { data, error } = await own.auth.signUp({ email, password });
    expect(error).toBeNull();
    return { client: own, id: data.user!.id, email, password };
  }

  test('sign-up, password sign-in, refresh, get user, sign-out', async () => {
    const { client: own, id, email, password } = await aUser();
    const wrong = await client().auth.signInWithPassword({ email, password: 'wrong' });
    expect(wrong.error).toMatchObject({ status: 400, code: 'invalid_credentials' });

    const signedIn = await own.auth.signInWithPassword({ email, password });
    expect(signedIn.error).toBeNull();
    expect(signedIn.data.session).toMatchObject({ token_type: 'bearer', expires_in: 900 });

    const refreshed = await own.auth.refreshSession();
    expect(refreshed.error).toBeNull();
    expect(refreshed.data.session!.refresh_token).not.toBe(signedIn.data.session!.refresh_token);

    const { data, error } = await own.auth.getUser();
    expect(error).toBeNull();
    expect(data.user).toMatchObject({ id, email, is_anonymous: false, role: 'authenticated' });
    const claims = await own.auth.getClaims();
    expect(claims.data?.claims).toMatchObject({ sub: id, role: 'authenticated' });

    const token = refreshed.data.session!.access_token;
    expect((await own.auth.signOut()).error).toBeNull();
    expect((await own.auth.getUser(token)).error).not.toBeNull();
  });

  test('rows are inserted, read, changed and deleted under row-level security', async () => {
    const { client: ada, id } = await aUser();
    const { client: bob } = await aUser();

    const list = await ada.from('lists').insert({ title: 'Groceries' }).select().single();
    expect(list.error).toBeNull();
    expect(list.data).toMatchObject({ title: 'Groceries', owner_id: id });
    const listId: string = list.data.id;

    const rows = [
      { list_id: listId, title: 'Milk', priority: 1 },
      { list_id: listId, title: 'Bread', priority: 3 },
      { list_id: listId, title: 'Salt' },
    ];
    const minimal = await ada.from('todos').insert(rows, { defaultToNull: false });
    expect(minimal).toMatchObject({ status: 201, data: null, error: null });

    const ordered = await ada
      .from('todos')
      .select('title, priority, lists(title)')
      .eq('list_id', listId)
      .gte('priority', 2)
      .order('priority', { ascending: false })
      .limit(2);
    expect(ordered.data).toEqual([
      { title: 'Bread', priority: 3, lists: { title: 'Groceries' } },
      { title: 'Salt', priority: 2, lists: { title: 'Groceries' } },
    ]);
    const counted = await ada.from('todos').select('*', { count: 'exact', head: true });
    expect(counted.count).toBe(3);

    const updated = await ada
      .from('todos')
      .update({ status: 'done' })
      .eq('title', 'Milk')
      .select('title, status');
    expect(updated.data).toEqual([{ title: 'Milk', status: 'done' }]);
    const refused = await ada.from('todos').update({ status: 'lost' }).eq('title', 'Milk');
    expect(refused.error).toMatchObject({ code: '23514' });

    expect((await bob.from('todos').select()).data).toEqual([]);
    expect((await bob.from('todos').update({ title: 'x' }).eq('list_id', listId).select()).data).toEqual([]);
    expect((await bob.from('todos').insert({ list_id: listId, title: 'mine?' })).error).toMatchObject({
      code: '42501',
    });
    expect((await client().from('todos').select()).data).toEqual([]);

    const summary = await ada.rpc('todo_summary');
    expect(summary.data).toEqual({ done: 1, open: 2 });

    expect((await ada.from('todos').delete().eq('title', 'Salt')).status).toBe(204);
    expect((await ada.from('todos').delete().eq('title', 'Bread').select('title')).data).toEqual([
      { title: 'Bread' },
    ]);
  });

  test('upsert with both resolutions; the secret key bypasses the policies', async () => {
    const service = client(svc.secretKey);
    const body = `Drink water ${Math.random()}`;
    const first = await service.from('tips').upsert({ body }, { onConflict: 'body' }).select().single();
    expect(first.error).toBeNull();
    const again = await service.from('tips').upsert({ body }, { onConflict: 'body' }).select().single();
    expect(again.data.id).toBe(first.data.id);
    expect(
      await service.from('tips').upsert({ body }, { onConflict: 'body', ignoreDuplicates: true }),
    ).toMatchObject({ error: null, data: null });
    expect((await client().from('tips').select('body').eq('body', body)).data).toEqual([{ body }]);
    expect((await client().from('tips').insert({ body: 'x' })).error).toMatchObject({ code: '42501' });
  });

  test('SQL functions by POST, with the rules for callers and arguments', async () => {
    expect((await client().rpc('add_numbers', { a: 2, b: 3 })).data).toBe(5);
    expect((await client().rpc('add_numbers', { a: 2 })).data).toBe(3);
    expect(await client().rpc('add_numbers', { a: 2, zz: 1 })).toMatchObject({
      status: 400,
      error: { code: 'PGRST202' },
    });
    expect(await client().rpc('todo_summary')).toMatchObject({ status: 401 });
  });

  test('an upload is private to its owner, or public by URL in a public bucket', async () => {
    const { client: ada, id } = await aUser();
    const { client: bob } = await aUser();
    const picture = new Blob([new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 1, 2, 3])], {
      type: 'image/png',
    });
    const path = `${id}/face.png`;

    expect((await ada.storage.from('avatars').upload(path, picture)).error).toBeNull();
    const { publicUrl } = ada.storage.from('avatars').getPublicUrl(path).data;
    const response = await fetch(publicUrl);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('image/png');
    expect(new Uint8Array(await response.arrayBuffer())).toEqual(new Uint8Array(await picture.arrayBuffer()));

    expect((await ada.storage.from('attachments').upload(path, picture)).error).toBeNull();
    expect((await ada.storage.from('attachments').download(path)).data?.size).toBe(picture.size);
    expect((await bob.storage.from('attachments').download(path)).error).not.toBeNull();
    expect(
      (await client().storage.from('attachments').upload(`${id}/other.png`, picture)).error,
    ).not.toBeNull();
    const wrongType = await ada.storage
      .from('attachments')
      .upload('x.txt', new Blob(['hello'], { type: 'text/plain' }));
    expect(wrongType.error).toMatchObject({ statusCode: '415' });
  });

  test('an anonymous sign-in is a user that can own rows', async () => {
    const visitor = client();
    const { data, error } = await visitor.auth.signInAnonymously();
    expect(error).toBeNull();
    expect(data.user).toMatchObject({ is_anonymous: true, role: 'anon' });
    const list = await visitor.from('lists').insert({ title: 'Mine' }).select('owner_id').single();
    expect(list.data).toEqual({ owner_id: data.user!.id });
  });
});
