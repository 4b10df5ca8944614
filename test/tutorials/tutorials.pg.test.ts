// Three projects from tutorials, used by supabase-js: under `svc dev`, and deployed to an empty database.
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { startSvc, type SvcProcess } from '../support/svc-process.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);

describe.each(['dev', 'serve'] as const)('svc %s', (command) => {
  let folder: string;
  let database: TestDatabase;
  let svc: SvcProcess;

  const use = (name: string): void => {
    beforeAll(async () => {
      folder = mkdtempSync(join(tmpdir(), 'svc-tutorial-'));
      cpSync(fileURLToPath(new URL(name, import.meta.url)), folder, { recursive: true });
      database = await createDatabase();
      svc = await startSvc({
        command,
        config: join(folder, 'svc.yaml'),
        env: { SVC_DATABASE_URL: database.url, ...(command === 'serve' ? KEYS : {}) },
        arguments: command === 'serve' ? ['--migrate'] : [],
      });
    });
    afterAll(async () => {
      await svc.stop();
      await database.drop();
      rmSync(folder, { recursive: true });
    });
  };

  const client = (key = svc.publishableKey): SupabaseClient =>
    createClient(svc.url, key, { auth: { persistSession: false, autoRefreshToken: false } });

  async function person(name: string): Promise<{ client: SupabaseClient; id: string }> {
    const made = client();
    const { data, error } = await made.auth.signUp({
      email: `${name}@example.com`,
      password: 'correct horse battery',
      options: { data: { full_name: name } },
    });
    expect(error).toBeNull();
    return { client: made, id: data.user?.id ?? '' };
  }

  describe('profiles with pictures', () => {
    use('profiles');

    test('a sign-up creates the profile; its owner changes it and its picture, others can only read', async () => {
      const ann = await person('ann');
      const ben = await person('ben');
      expect(await ann.client.from('profiles').select('full_name').eq('id', ann.id).single()).toMatchObject({
        data: { full_name: 'ann' },
      });
      const changed = await ann.client
        .from('profiles')
        .upsert({ id: ann.id, username: 'annie', website: 'https://example.com' })
        .select('username, updated_at')
        .single();
      expect(changed).toMatchObject({
        error: null,
        data: { username: 'annie', updated_at: expect.any(String) },
      });
      expect(
        (await ann.client.from('profiles').update({ username: 'an' }).eq('id', ann.id)).error?.code,
      ).toBe('23514');
      const foreign = await ben.client
        .from('profiles')
        .update({ username: 'mine' })
        .eq('id', ann.id)
        .select();
      expect(foreign.data).toEqual([]);

      const path = `${ann.id}/face.png`;
      const upload = (client: SupabaseClient) =>
        client.storage.from('avatars').upload(path, PIXEL, { contentType: 'image/png', upsert: true });
      expect((await upload(ann.client)).error).toBeNull();
      expect((await upload(ben.client)).error).not.toBeNull();
      const { data } = client().storage.from('avatars').getPublicUrl(path);
      expect(Buffer.from(await (await fetch(data.publicUrl)).arrayBuffer())).toEqual(PIXEL);
      expect((await ann.client.storage.from('avatars').download(path)).error).toBeNull();
    });
  });

  describe('rooms, members and messages', () => {
    use('chat');

    test('only members of a room read and write in it', async () => {
      const ann = await person('ann');
      const ben = await person('ben');
      const { data: room, error } = await ann.client.rpc('create_room', { name: 'Kitchen' });
      expect(error).toBeNull();
      expect((await ann.client.from('messages').insert({ room_id: room, body: 'hello' })).error).toBeNull();
      expect((await ben.client.from('messages').insert({ room_id: room, body: 'hi' })).error?.code).toBe(
        '42501',
      );
      expect((await ben.client.from('rooms').select()).data).toEqual([]);
      expect((await client().from('messages').select()).data).toEqual([]);
      expect((await ann.client.from('members').insert({ room_id: room, user_id: ben.id })).error).toBeNull();
      expect((await ben.client.from('messages').insert({ room_id: room, body: 'hi' })).error).toBeNull();
      const read = await ben.client
        .from('rooms')
        .select('name, members(user_id), messages(body)')
        .order('sent_at', { referencedTable: 'messages', ascending: false })
        .single();
      expect(read).toMatchObject({
        error: null,
        data: { name: 'Kitchen', members: expect.any(Array), messages: [{ body: 'hi' }, { body: 'hello' }] },
      });
      const forged = await ben.client
        .from('messages')
        .insert({ room_id: room, body: 'x', author_id: ann.id });
      expect(forged.error?.code).toBe('42501');
    });
  });

  describe('products, orders and search', () => {
    use('shop');

    test('everyone can search; a customer orders at the price of the shop and sees only their own orders', async () => {
      const shop = client(svc.secretKey);
      const { data: products } = await shop
        .from('products')
        .insert([
          { name: 'Walking boots', description: 'For mountains', cents: 9_900 },
          { name: 'Sandals', description: 'Walk on beaches', cents: 2_500 },
          { name: 'Umbrella', description: 'Black', cents: 1_500 },
        ])
        .select('id, name');
      expect(products).toHaveLength(3);
      const found = await client().rpc('search_products', { query: 'walking' }).select('name');
      const names = [found.data ?? []].flat().map(({ name }) => String(name));
      expect(names.sort()).toEqual(['Sandals', 'Walking boots']);
      const by = await client()
        .from('products')
        .select('name')
        .textSearch('words', 'mountain', { config: 'english' });
      expect(by.data).toEqual([{ name: 'Walking boots' }]);
      expect((await client().from('products').insert({ name: 'x', cents: 1 })).error?.code).toBe('42501');

      const ann = await person('ann');
      const ben = await person('ben');
      const { data: order, error } = await ann.client.from('orders').insert({}).select().single();
      expect(error).toBeNull();
      const item = { order_id: order.id, product_id: products?.[0]?.id, quantity: 2, cents: 1 };
      expect((await ann.client.from('order_items').insert(item)).error).toBeNull();
      expect(
        (await ben.client.from('order_items').insert({ ...item, product_id: products?.[1]?.id })).error?.code,
      ).toBe('42501');
      const read = await ann.client
        .from('orders')
        .select('state, order_items(quantity, cents, products(name))')
        .single();
      expect(read.data).toEqual({
        state: 'open',
        order_items: [{ quantity: 2, cents: 9_900, products: { name: 'Walking boots' } }],
      });
      expect((await ann.client.from('order_totals').select('cents')).data).toEqual([{ cents: 19_800 }]);
      expect((await ben.client.from('orders').select()).data).toEqual([]);
      expect((await ben.client.from('order_totals').select()).data).toEqual([]);
    });
  });
});
