// Everyday calls of the published client library against the data API.
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { createRestWorld, KEYS, type RestWorld } from '../support/rest-world.ts';
import { WORLD } from './fixture.ts';

let database: TestDatabase;
let world: RestWorld;
let client: SupabaseClient;

beforeAll(async () => {
  database = await createDatabase();
  world = await createRestWorld({ url: database.url, ...WORLD });
  client = createClient(world.url, KEYS.publishable, { auth: { persistSession: false } });
});

afterAll(async () => {
  await world.close();
  await database.drop();
});

async function asUser(sub: string): Promise<SupabaseClient> {
  const token = await world.token({ sub });
  return createClient(world.url, KEYS.publishable, { accessToken: () => Promise.resolve(token) });
}

test('select with filters, order and range', async () => {
  const { data, error, count } = await client
    .from('books')
    .select('id,title', { count: 'exact' })
    .gt('price', 5)
    .order('id', { ascending: false })
    .range(0, 1);
  expect(error).toBeNull();
  expect(data).toEqual([
    { id: 3, title: 'Gamma' },
    { id: 2, title: 'Beta, vol. 1' },
  ]);
  expect(count).toBe(3);
});

test('select with embeds', async () => {
  const { data, error } = await client
    .from('books')
    .select('id,author:authors!author_id(name),genres(name)')
    .order('name', { referencedTable: 'genres' })
    .eq('id', 1)
    .single();
  expect(error).toBeNull();
  expect(data).toEqual({ id: 1, author: { name: 'Ada' }, genres: [{ name: 'crime' }, { name: 'sf' }] });
});

test('insert, update, upsert and delete with and without a representation', async () => {
  expect(await client.from('genres').insert({ id: 10, name: 'new' })).toMatchObject({
    status: 201,
    error: null,
  });
  const inserted = await client
    .from('genres')
    .insert([{ id: 11, name: 'a' }, { id: 12 }])
    .select();
  expect(inserted.data).toEqual([
    { id: 11, name: 'a' },
    { id: 12, name: null },
  ]);
  const updated = await client.from('genres').update({ name: 'b' }).eq('id', 11).select('name').single();
  expect(updated.data).toEqual({ name: 'b' });
  const upserted = await client
    .from('genres')
    .upsert([
      { id: 11, name: 'c' },
      { id: 13, name: 'd' },
    ])
    .select();
  expect(upserted).toMatchObject({ status: 201, error: null });
  expect(upserted.data).toHaveLength(2);
  const again = await client.from('genres').upsert({ id: 11, name: 'c' });
  expect(again).toMatchObject({ status: 200, error: null });
  const removed = await client.from('genres').delete({ count: 'exact' }).gte('id', 10);
  expect(removed).toMatchObject({ status: 204, error: null, count: 4 });
});

test('row security decides what a caller sees and writes', async () => {
  const owner = await asUser('00000000-0000-0000-0000-000000000001');
  const stranger = await asUser('00000000-0000-0000-0000-000000000003');
  expect((await client.from('notes').select()).data).toEqual([]);
  expect((await owner.from('notes').select('body')).data).toEqual([{ body: 'mine' }]);
  expect((await stranger.from('notes').select()).data).toEqual([]);
  const row = { id: 9, owner: '00000000-0000-0000-0000-000000000001', body: 'x' };
  expect(await client.from('notes').insert(row)).toMatchObject({ status: 401, error: { code: '42501' } });
  expect(await stranger.from('notes').insert(row)).toMatchObject({ status: 403, error: { code: '42501' } });
  expect(await owner.from('notes').insert(row)).toMatchObject({ status: 201, error: null });
  expect((await owner.from('notes').delete().eq('id', 9)).error).toBeNull();
});

test('functions', async () => {
  expect((await client.rpc('add', { a: 1 })).data).toBe(11);
  expect((await client.rpc('add', { a: 1, b: 2 }, { get: true })).data).toBe(3);
  expect((await client.rpc('noop')).status).toBe(204);
  expect((await client.rpc('books_over', { min: 15 }).select('id').order('id')).data).toEqual([
    { id: 2 },
    { id: 3 },
  ]);
  expect((await client.rpc('add', { b: 1 })).error).toMatchObject({ code: 'PGRST202' });
});

test('errors have four keys', async () => {
  const { error, status } = await client.from('nope').select();
  expect(status).toBe(404);
  expect(error).toMatchObject({ code: 'PGRST205', message: expect.any(String), hint: expect.any(String) });
});
