// Every method of the published client libraries, in the newest and an older version, against the data API.
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { createClient as createOldClient } from 'supabase-js-2.107';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WORLD } from '../fixture.ts';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { createRestWorld, KEYS, type RestWorld } from '../../support/rest-world.ts';

let database: TestDatabase;
let world: RestWorld;

beforeAll(async () => {
  database = await createDatabase();
  world = await createRestWorld({ url: database.url, ...WORLD, dev: true });
});

afterAll(async () => {
  await world.close();
  await database.drop();
});

type MaxAffected = { maxAffected(rows: number): PromiseLike<{ error: unknown }> };
const selectIds = (client: SupabaseClient) => client.from('books').select('id').order('id');
type Books = ReturnType<typeof selectIds>;
type Create = (url: string, key: string, options: object) => SupabaseClient;

const OPTIONS = { auth: { persistSession: false, autoRefreshToken: false } };

describe.each([
  ['newest', createClient as Create],
  ['2.107', createOldClient as unknown as Create],
] as const)('%s', (name, create) => {
  // Created lazily, because the address is known only after the start.
  const api = (): SupabaseClient => create(world.url, KEYS.publishable, OPTIONS);
  const books = (): Books => selectIds(api());
  const ids = (rows: unknown): unknown[] => (rows as { id: unknown }[]).map((row) => row.id);

  const FILTERS: ReadonlyArray<
    readonly [string, (b: Books) => PromiseLike<{ data: unknown; error: unknown }>, unknown[]]
  > = [
    ['eq', (b) => b.eq('id', 2), [2]],
    ['neq', (b) => b.neq('id', 2), [1, 3, 4]],
    ['gt', (b) => b.gt('price', 10), [2, 3]],
    ['gte', (b) => b.gte('price', 20), [2, 3]],
    ['lt', (b) => b.lt('price', 20), [1]],
    ['lte', (b) => b.lte('price', 20), [1, 2]],
    ['like', (b) => b.like('title', '%a'), [1, 3]],
    ['likeAllOf', (b) => b.likeAllOf('title', ['%a%', 'A%']), [1]],
    ['likeAnyOf', (b) => b.likeAnyOf('title', ['A%', 'G%']), [1, 3]],
    ['ilike', (b) => b.ilike('title', 'ALP%'), [1]],
    ['ilikeAllOf', (b) => b.ilikeAllOf('title', ['%A%', '%L%']), [1, 2, 4]],
    ['ilikeAnyOf', (b) => b.ilikeAnyOf('title', ['a%', 'g%']), [1, 3]],
    ['is', (b) => b.is('author_id', null), [4]],
    ['in', (b) => b.in('title', ['Alpha', 'Beta, vol. 1', 'with (parentheses)']), [1, 2]],
    ['contains array', (b) => b.contains('tags', ['a']), [1]],
    ['contains range', (b) => b.contains('sale', '[2,3)'), [1]],
    ['containedBy', (b) => b.containedBy('tags', ['b', 'c']), [2, 3]],
    ['rangeGt', (b) => b.rangeGt('sale', '[1,5)'), [2]],
    ['rangeGte', (b) => b.rangeGte('sale', '[5,6)'), [2]],
    ['rangeLt', (b) => b.rangeLt('sale', '[5,6)'), [1]],
    ['rangeLte', (b) => b.rangeLte('sale', '[1,5)'), [1]],
    ['rangeAdjacent', (b) => b.rangeAdjacent('sale', '[5,6)'), [1]],
    ['overlaps', (b) => b.overlaps('tags', ['a', 'z']), [1]],
    ['match', (b) => b.match({ id: 1, title: 'Alpha' }), [1]],
    ['not', (b) => b.not('id', 'in', '(1,2)'), [3, 4]],
    ['or', (b) => b.or('id.eq.1,and(id.gt.2,title.like.G*)'), [1, 3]],
    ['filter', (b) => b.filter('id', 'in', '("1","3")'), [1, 3]],
    ['or in an embed', (b) => b.or('id.eq.1,id.eq.2', { referencedTable: 'authors' }), [1, 2, 3, 4]],
  ];

  test.each(FILTERS)('%s', async (label, filter, expected) => {
    const query = label.includes('embed')
      ? api().from('books').select('id,authors!author_id(id)').order('id')
      : books();
    const { data, error } = await filter(query as Books);
    expect(error).toBeNull();
    expect(ids(data)).toEqual(expected);
  });

  test.runIf(name === 'newest')('regexMatch, regexIMatch, isDistinct and notIn', async () => {
    expect(ids((await books().regexMatch('title', '^G')).data)).toEqual([3]);
    expect(ids((await books().regexIMatch('title', '^g')).data)).toEqual([3]);
    expect(ids((await books().isDistinct('author_id', 1)).data)).toEqual([3, 4]);
    expect(ids((await books().notIn('id', [1, 2])).data)).toEqual([3, 4]);
  });

  test.runIf(name === 'newest')('getOpenApiSpec and retry', async () => {
    type Newest = {
      getOpenApiSpec(): PromiseLike<{ data: { swagger: string; paths: object }; error: unknown }>;
    };
    const spec = await (api().schema('public') as unknown as Newest).getOpenApiSpec();
    expect(spec.error).toBeNull();
    expect(spec.data.swagger).toBe('2.0');
    expect(Object.keys(spec.data.paths)).toContain('/books');
    // Tables that only the service may read are not described to others.
    expect(Object.keys(spec.data.paths)).not.toContain('/secrets');
    const once = books() as Books & { retry(enabled: boolean): Books };
    expect(ids((await once.retry(false).eq('id', 2)).data)).toEqual([2]);
  });

  test('contains on json and textSearch', async () => {
    const authors = await api().from('authors').select('id').contains('bio', { lang: 'en' });
    expect(ids(authors.data)).toEqual([1]);
    for (const type of ['plain', 'phrase', 'websearch'] as const) {
      const docs = await api()
        .from('docs')
        .select('id')
        .textSearch('body', 'fat cats', { type, config: 'english' });
      expect(ids(docs.data)).toEqual([1]);
    }
  });

  test('order, limit, range and their referencedTable', async () => {
    const { data } = await api()
      .from('authors')
      .select('id,books!author_id(id)')
      .order('id')
      .order('id', { referencedTable: 'books', ascending: false })
      .limit(1, { referencedTable: 'books' })
      .range(0, 1);
    expect(data).toEqual([
      { id: 1, books: [{ id: 2 }] },
      { id: 2, books: [{ id: 3 }] },
    ]);
    const sorted = await api()
      .from('books')
      .select('id,authors!author_id(name)')
      .order('authors(name)', { ascending: false, nullsFirst: false })
      .order('id');
    expect(ids(sorted.data)).toEqual([3, 1, 2, 4]);
  });

  test('single and maybeSingle', async () => {
    expect((await books().eq('id', 1).single()).data).toEqual({ id: 1 });
    expect((await books().eq('id', 0).single()).error).toMatchObject({ code: 'PGRST116' });
    expect((await books().eq('id', 0).maybeSingle()).data).toBeNull();
    expect((await books().maybeSingle()).error).toMatchObject({ code: 'PGRST116' });
  });

  test('csv, stripNulls, explain and geojson', async () => {
    expect((await api().from('genres').select('id,name').order('id').csv()).data).toBe(
      'id,name\n1,sf\n2,crime\n3,poem',
    );
    expect((await api().from('authors').select().eq('id', 3).stripNulls()).data).toEqual([
      { id: 3, name: 'Cy' },
    ]);
    const plan = await books().explain({ format: 'json', analyze: true });
    expect(plan.error).toBeNull();
    expect(JSON.stringify(plan.data)).toContain('Actual');
    expect((await books().explain()).data).toContain('Aggregate');
    // Without PostGIS the format is not available, and the client gets an error.
    expect((await books().geojson()).error).toMatchObject({ code: 'PGRST107' });
  });

  test('counts, with and without rows', async () => {
    const items = api().from('items');
    expect(await items.select('*', { count: 'exact', head: true })).toMatchObject({
      count: 57,
      error: null,
      data: null,
    });
    expect(await items.select('*', { count: 'planned', head: true })).toMatchObject({ count: 57 });
    expect(await items.select('*', { count: 'estimated' })).toMatchObject({ count: 57 });
    expect((await items.select()).data).toHaveLength(20);
    expect((await items.select().limit(1000)).data).toHaveLength(57);
  });

  test('having, aggregates and spreads', async () => {
    const grouped = await api().from('books').select('author_id,n:count()').filter('having', 'n.gt', 1);
    expect(grouped.data).toEqual([{ author_id: 1, n: 2 }]);
    const spread = await api().from('books').select('id,...authors!author_id(author:name)').eq('id', 1);
    expect(spread.data).toEqual([{ id: 1, author: 'Ada' }]);
  });

  test('writes, rolled back', async () => {
    const genres = api().from('genres');
    const inserted = await genres.insert({ id: 50, name: 'x' }).select().rollback().single();
    expect(inserted.data).toEqual({ id: 50, name: 'x' });
    const many = await genres
      .insert([{ id: 51 }, { id: 52, name: 'y' }], { count: 'exact', defaultToNull: false })
      .rollback();
    expect(many).toMatchObject({ status: 201, count: 2, error: null });
    const accounts = await api()
      .from('accounts')
      .upsert([{ email: 'a@x', name: 'B' }], { onConflict: 'email', ignoreDuplicates: true })
      .select()
      .rollback();
    expect(accounts.data).toEqual([]);
    const updated = await genres
      .update({ name: 'z' }, { count: 'exact' })
      .gt('id', 1)
      .select('id')
      .rollback();
    expect(updated).toMatchObject({ count: 2, status: 200 });
    const deleted = await genres.delete({ count: 'exact' }).eq('id', 3).rollback();
    expect(deleted).toMatchObject({ count: 1, status: 204 });
    // The type requires a server that reports PostgREST 13 or later.
    const refused = await (genres.delete().gt('id', 0) as unknown as MaxAffected).maxAffected(1);
    expect(refused.error).toMatchObject({ code: 'PGRST124' });
    expect((await genres.select('id').order('id')).data).toEqual([{ id: 1 }, { id: 2 }, { id: 3 }]);
  });

  test('rpc by POST, GET and HEAD', async () => {
    expect((await api().rpc('add', { a: 1, b: 2 })).data).toBe(3);
    expect((await api().rpc('add', { a: 1 }, { get: true })).data).toBe(11);
    expect((await api().rpc('sum_of', { xs: [1, 2] }, { get: true })).data).toBe(3);
    const counted = await api().rpc('all_items', {}, { head: true, count: 'exact' });
    expect(counted).toMatchObject({ count: 57, error: null });
    const filtered = await api().rpc('books_over', { min: 5 }).select('id').lt('price', 25).order('id');
    expect(ids(filtered.data)).toEqual([1, 2]);
    expect((await api().rpc('noop')).status).toBe(204);
  });

  test('schema, throwOnError, abortSignal, setHeader, returns and overrideTypes', async () => {
    expect((await api().schema('public').from('genres').select('id').eq('id', 1)).data).toEqual([{ id: 1 }]);
    expect((await api().schema('secret').from('genres').select()).error).toMatchObject({ code: 'PGRST106' });
    await expect(books().eq('nope', 1).throwOnError()).rejects.toMatchObject({ code: '42703' });
    const aborted = await books().abortSignal(AbortSignal.abort());
    expect(aborted.error).not.toBeNull();
    const zoned = await api().from('big').select('at').setHeader('Prefer', 'timezone=Asia/Tokyo').single();
    expect(zoned.data).toEqual({ at: '2023-10-18T21:37:59.611+09:00' });
    expect((await books().eq('id', 1).overrideTypes<{ id: number }[]>()).data).toEqual([{ id: 1 }]);
  });
});

test('the description that newer clients ask for', async () => {
  const response = await fetch(`${world.restUrl}/`, {
    headers: { apikey: KEYS.publishable, accept: 'application/openapi+json' },
  });
  expect(response.status).toBe(200);
  expect(await response.json()).toMatchObject({ swagger: '2.0' });
});
