// Prefix, search and bucket search are literal text, never patterns.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { call } from '../conformance/http.ts';
import { aBucket, createWorld, OWN, type World } from '../conformance/world.ts';

let world: World;
const NAMES = ['a_b/one', 'axb/two', 'a-b/three', '100!/four', '100x/five', "o'clock/six", 'plain'];

beforeAll(async () => {
  world = await createWorld({ buckets: [aBucket('b', { rls: [OWN] }), aBucket('b_x')] });
  for (const name of NAMES) {
    await call('POST', `${world.url}/object/b/${name}`, { headers: world.alice.headers, body: 'x' });
  }
});
afterAll(() => world?.stop());

const PATTERNS = [
  '%',
  '_',
  '\\',
  '%%',
  'a_b',
  'a%b',
  'a\\_b',
  'a__',
  '[a]',
  '^a',
  '.*',
  "'; drop table x --",
  "o'clock",
  '$1',
  '\u{10ffff}',
  'A_B',
];

test.each(PATTERNS)('%s', async (pattern) => {
  const headers = world.alice.headers;
  const literal = (name: string, fold: boolean): boolean =>
    fold ? name.toLowerCase().startsWith(pattern.toLowerCase()) : name.startsWith(pattern);
  const v1 = await call('POST', `${world.url}/object/list/b`, {
    headers,
    body: { prefix: '', search: pattern },
  });
  const folders = NAMES.filter((name) => literal(name, true)).map((name) => name.split('/')[0] ?? '');
  expect(v1.json.map((entry) => entry.name).sort()).toEqual([...new Set(folders)].sort());
  const inFolder = await call('POST', `${world.url}/object/list/b`, { headers, body: { prefix: pattern } });
  expect(inFolder.json.length).toBe(
    NAMES.filter((name) => name.toLowerCase().startsWith(`${pattern.toLowerCase()}/`)).length,
  );
  const v2 = await call('POST', `${world.url}/object/list-v2/b`, { headers, body: { prefix: pattern } });
  expect(v2.json.objects.map((entry) => entry.name)).toEqual(
    NAMES.filter((name) => literal(name, false)).sort(),
  );
  const deep = await call('POST', `${world.url}/object/list-v2/b`, {
    headers,
    body: { prefix: pattern, with_delimiter: true },
  });
  expect(deep.status).toBe(200);
  const cursor = Buffer.from(JSON.stringify({ k: pattern, o: 'asc', c: 'name' })).toString('base64');
  expect(
    (await call('POST', `${world.url}/object/list-v2/b`, { headers, body: { cursor, with_delimiter: true } }))
      .status,
  ).toBe(200);
  const removed = await call('DELETE', `${world.url}/object/b`, { headers, body: { prefixes: [pattern] } });
  expect(removed.json).toEqual([]);
});

test('bucket search', async () => {
  const found = async (search: string): Promise<string[]> =>
    (
      await call('GET', `${world.url}/bucket?search=${encodeURIComponent(search)}`, {
        headers: world.service,
      })
    ).json.map((bucket) => bucket.name);
  expect(await found('_')).toEqual(['b_x']);
  expect(await found('%')).toEqual([]);
  expect(await found('B')).toEqual(['b', 'b_x']);
});
