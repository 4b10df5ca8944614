// The how-to pages about rows, with their blocks as printed.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { HowToPage, type Call } from '../support/documentation/how-to-page.ts';

type Row = { id: string; title: string; created_at: string };

describe('docs/how-to/pagination.md', () => {
  let page: HowToPage;
  let list: Call;
  let cursor: Call;
  const insert = async (title: string, createdAt: string): Promise<void> => {
    const { error } = await page.admin().from('posts').insert({ title, created_at: createdAt });
    expect(error).toBeNull();
  };
  beforeAll(async () => {
    page = await HowToPage.open('docs/how-to/pagination.md', { dev: true });
    list = await page.module('export async function loadPage');
    cursor = await page.module('export async function loadNext');
    // Three rows at each time, so that the second order decides.
    const rows = Array.from({ length: 95 }, (_, index) => ({
      title: `post ${index}`,
      created_at: new Date(Date.UTC(2026, 0, 1, 0, Math.floor(index / 3))).toISOString(),
    }));
    expect((await page.admin().from('posts').insert(rows)).error).toBeNull();
  });
  afterAll(() => page?.close());

  test('numbered pages contain every row once', async () => {
    const titles: string[] = [];
    for (let number = 0; number < 5; number++) {
      const { rows, pages } = await list<{ rows: Row[]; pages: number }>(
        'loadPage',
        page.anonymous(),
        number,
      );
      expect(pages).toBe(5);
      titles.push(...rows.map(({ title }) => title));
    }
    expect(titles).toHaveLength(95);
    expect(new Set(titles).size).toBe(95);
    await expect(list('loadPage', page.anonymous(), 9)).rejects.toMatchObject({
      code: 'PGRST103',
    });
  });

  test('a cursor shows every row once while rows are inserted at the top', async () => {
    const titles: string[] = [];
    const show = (rows: Row[]): void => void titles.push(...rows.map(({ title }) => title));
    const load = await cursor<() => Promise<boolean>>('createLoader', page.anonymous(), show);
    let isComplete = false;
    for (let round = 0; !isComplete; round++) {
      isComplete = await load();
      await insert(`new ${round}`, '2027-01-01');
    }
    expect(titles.filter((title) => title.startsWith('post'))).toHaveLength(95);
    expect(new Set(titles).size).toBe(titles.length);
  });

  test('the cursor begins in the index', async () => {
    const { data } = await page
      .anonymous()
      .from('posts')
      .select('id')
      .order('created_at', { ascending: false })
      .order('id', { ascending: false })
      .limit(20)
      .lte('created_at', '2026-01-01T00:10:00Z')
      .explain({ format: 'text' });
    expect(data).toEqual(expect.stringMatching(/Index.* Scan.*posts/));
    expect(data).toEqual(expect.stringMatching(/Index Cond: .*created_at <=/));
  });

  test('the check prints the number of rows, and each block has run', async () => {
    expect(await page.sh('curl -s -o /dev/null')).toMatch(/content-range: 0-19\/\d+/i);
    expect(page.unused()).toEqual([]);
  });
});

describe('docs/how-to/full-text-search.md', () => {
  let page: HowToPage;
  beforeAll(async () => {
    page = await HowToPage.open('docs/how-to/full-text-search.md');
    const { error } = await page
      .admin()
      .from('articles')
      .insert([
        { title: 'Index a database', body: 'Indexes make queries fast.' },
        { title: 'Cooking', body: 'A database of recipes, and a fast oven.' },
        { title: 'PostgreSQL tips', body: 'Vacuum, analyze and other words.' },
      ]);
    expect(error).toBeNull();
  });
  afterAll(() => page?.close());

  test('finds words, phrases and excluded words, with the best match first', async () => {
    const find = await page.module('export async function filter');
    const ids = async (name: string, words: string): Promise<number[]> =>
      (await find<{ id: number }[]>(name, page.anonymous(), words)).map(({ id }) => id);
    expect(await ids('filter', 'databases')).toEqual([1, 2]);
    expect(await ids('filter', 'database -recipes')).toEqual([1]);
    expect(await ids('filter', '"fast oven" or vacuum')).toEqual([2, 3]);
    expect(await ids('search', 'database')).toEqual([1, 2]);
    expect(await ids('search', 'recipe')).toEqual([2]);
  });

  test('suggests titles in spite of typos', async () => {
    const find = await page.module('export async function suggest');
    const titles = async (words: string): Promise<string[]> =>
      (await find<Row[]>('suggest', page.anonymous(), words)).map(({ title }) => title);
    expect(await titles('postgrsql')).toEqual(['PostgreSQL tips']);
    expect(await titles('cook')).toEqual(['Cooking']);
  });

  test('the check prints both articles, and each block has run', async () => {
    expect(JSON.parse(await page.sh('curl -s '))).toHaveLength(2);
    expect(page.unused()).toEqual([]);
  });
});

describe('docs/how-to/soft-delete.md', () => {
  let page: HowToPage;
  beforeAll(async () => {
    page = await HowToPage.open('docs/how-to/soft-delete.md');
  });
  afterAll(() => page?.close());

  test('a deleted row is in the trash, its title is free, and it can be restored', async () => {
    const trash = await page.module('export async function remove');
    const [ann, bob] = [await page.signUp('ann'), await page.signUp('bob')];
    const add = async (): Promise<string> =>
      String((await ann.client.from('tasks').insert({ title: 'wash' }).select('id').single()).data?.id);
    const first = await add();
    await trash('remove', ann.client, first);
    expect(await trash('listLive', ann.client)).toEqual([]);
    expect(await trash('listTrash', ann.client)).toMatchObject([{ id: first }]);
    const second = await add();
    await expect(trash('restore', ann.client, first)).rejects.toThrow(/exists/);
    await trash('remove', ann.client, second);
    await trash('restore', ann.client, first);
    expect(await trash('listLive', ann.client)).toMatchObject([{ id: first }]);
    for (const list of ['listLive', 'listTrash']) expect(await trash(list, bob.client)).toEqual([]);
    await trash('remove', bob.client, first);
    expect(await trash('listLive', ann.client)).toHaveLength(1);
    expect((await ann.client.from('tasks').delete().eq('id', first).select()).data).toEqual([]);
  });

  test('old rows are purged, and each block has run', async () => {
    await page.admin().from('tasks').update({ deleted_at: '2020-01-01' }).not('deleted_at', 'is', null);
    await page.sh('svc sql --write');
    expect(await page.sh("svc sql 'select count")).toMatch(/\b1\b.*\b1\b/);
    expect(page.unused()).toEqual([]);
  });
});

describe('docs/how-to/bulk-writes.md', () => {
  let page: HowToPage;
  beforeAll(async () => {
    page = await HowToPage.open('docs/how-to/bulk-writes.md');
  });
  afterAll(() => page?.close());

  test('upserts change or keep existing rows, and a failure in the last row leaves nothing', async () => {
    const write = await page.module('export async function saveProducts');
    const ann = await page.signUp('ann');
    const prices = async (): Promise<unknown> =>
      (await ann.client.from('products').select('price').order('sku')).data?.map(({ price }) => price);
    const count = async (table: string): Promise<number | null> =>
      (await ann.client.from(table).select('*', { count: 'exact', head: true })).count;
    await write('saveProducts', ann.client, [
      { sku: 'a', price: 1 },
      { sku: 'b', price: 2 },
    ]);
    await write('saveProducts', ann.client, [{ sku: 'a', price: 3 }]);
    await write('addMissing', ann.client, [
      { sku: 'a', price: 9 },
      { sku: 'c', price: 4 },
    ]);
    expect(await prices()).toEqual([3, 2, 4]);
    await write('order', ann.client, [
      { sku: 'a', count: 2 },
      { sku: 'b', count: 1 },
    ]);
    expect([await count('orders'), await count('order_items')]).toEqual([1, 2]);
    const wrong = [
      { sku: 'a', count: 2 },
      { sku: 'unknown', count: 1 },
    ];
    await expect(write('order', ann.client, wrong)).rejects.toMatchObject({ code: '23503' });
    expect([await count('orders'), await count('order_items')]).toEqual([1, 2]);
    await expect(
      write('saveProducts', ann.client, [
        { sku: 'd', price: 1 },
        { sku: 'd', price: 2 },
      ]),
    ).rejects.toMatchObject({ code: '21000' });
    await write('orderWithOwnId', ann.client, [{ sku: 'c', count: 1 }]);
    await expect(write('orderWithOwnId', ann.client, wrong)).rejects.toMatchObject({ code: '23503' });
    expect([await count('orders'), await count('order_items')]).toEqual([3, 3]);
  });

  test('the check lists the orders, and each block has run', async () => {
    expect(await page.sh('svc sql ')).toMatch(/3 rows/);
    expect(page.unused()).toEqual([]);
  });
});

describe('docs/how-to/csv.md', () => {
  let page: HowToPage;
  const people = [
    { id: 1, name: 'Ann, "A"', tags: ['a', 'b'], details: { k: 1 }, joined_on: '2026-01-02' },
    { id: 2, name: '', tags: [], details: null, joined_on: null },
    { id: 3, name: 'Zoë', tags: null, details: [1], joined_on: null },
  ];
  beforeAll(async () => {
    page = await HowToPage.open('docs/how-to/csv.md');
    expect((await page.admin().from('people').insert(people)).error).toBeNull();
  });
  afterAll(() => page?.close());

  test('exported rows are imported unchanged, whole and in parts', async () => {
    const read = async (): Promise<unknown> => (await page.admin().from('people').select().order('id')).data;
    await page.sh("curl -s 'http");
    for (const begin of ['curl -s --fail-with-body', 'tail -n +2']) {
      await page.admin().from('people').delete().gt('id', 0);
      await page.sh(begin);
      expect(await read()).toEqual(people);
    }
    const file = await page.module('export async function exportCsv');
    const ann = await page.signUp('ann');
    expect(await (await file<Blob>('exportCsv', ann.client)).text()).toContain('Zoë');
    await expect(
      file('exportCsv', page.anonymous()).then((blob) => (blob as unknown as Blob).text()),
    ).resolves.not.toContain('Zoë');
  });

  test('the check counts the rows, and each block has run', async () => {
    expect(await page.sh('svc sql ')).toMatch(/\b3\b/);
    expect(page.unused()).toEqual([]);
  });
});
