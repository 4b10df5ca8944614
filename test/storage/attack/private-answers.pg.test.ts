// A response for one caller must not be cached for another, and a 304 reveals bytes, so only callers with access get
// one.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { call } from '../conformance/http.ts';
import { aBucket, createWorld, OWN, type World } from '../conformance/world.ts';
import { privately } from '../../../src/storage/http/serve.ts';

let world: World;
let name: string;
beforeAll(async () => {
  world = await createWorld({
    buckets: [aBucket('priv', { rls: [OWN] }), aBucket('pub', { public: true, rls: [OWN] })],
  });
  name = randomUUID();
  for (const bucket of ['priv', 'pub']) {
    await call('POST', `${world.url}/object/${bucket}/${name}`, {
      headers: { ...world.alice.headers, 'cache-control': 'public, max-age=3600, s-maxage=9999, immutable' },
      body: 'content',
    });
  }
});
afterAll(() => world?.stop());

test('private objects are marked private, whatever the uploader requested', async () => {
  for (const path of [
    `/object/priv/${name}`,
    `/object/authenticated/priv/${name}`,
    `/object/info/priv/${name}`,
  ]) {
    const answer = await call('GET', `${world.url}${path}`, { headers: world.alice.headers });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('cache-control')).toMatch(/^private/);
    expect(answer.headers.get('cache-control')).not.toMatch(/s-maxage|public/);
    expect(answer.headers.get('vary')).toMatch(/Authorization/);
  }
  const open = await call('GET', `${world.url}/object/public/pub/${name}`);
  expect(open.headers.get('cache-control')).toBe('public, max-age=3600, s-maxage=9999, immutable');
});

test.each([
  ['max-age=60', 'private, max-age=60'],
  ['public', 'private'],
  ['PUBLIC, S-MaxAge=5,no-cache', 'private, no-cache'],
  ['', 'private'],
])('%s becomes %s', (given, expected) => {
  expect(privately(given)).toBe(expected);
});

test('a correct ETag does not help a caller without access', async () => {
  const etag =
    (await call('GET', `${world.url}/object/priv/${name}`, { headers: world.alice.headers })).headers.get(
      'etag',
    ) ?? '';
  const conditions = {
    'if-none-match': etag,
    'if-modified-since': new Date(Date.now() + 1000).toUTCString(),
  };
  for (const who of [world.bob.headers, world.anonymous, {}]) {
    const answer = await call('GET', `${world.url}/object/priv/${name}`, {
      headers: { ...who, ...conditions },
    });
    expect([answer.status, answer.headers.get('etag')]).toEqual([400, null]);
    const head = await call('HEAD', `${world.url}/object/priv/${name}`, {
      headers: { ...who, 'if-match': etag },
    });
    expect([head.status, head.headers.get('etag')]).toEqual([400, null]);
  }
  expect(
    (
      await call('GET', `${world.url}/object/priv/${name}`, {
        headers: { ...world.alice.headers, ...conditions },
      })
    ).status,
  ).toBe(304);
});

test.each(['/object', '/object/info', '/object/authenticated'])(
  'a hidden object and a missing one look the same at %s',
  async (route) => {
    const shapes = await Promise.all(
      [name, 'none'].map(async (object) => {
        const answer = await call('GET', `${world.url}${route}/priv/${object}`, {
          headers: world.bob.headers,
        });
        return JSON.stringify([answer.status, answer.text, [...answer.headers.keys()].sort()]);
      }),
    );
    expect(shapes[0]).toBe(shapes[1]);
  },
);

test('a replaced object has a new ETag immediately', async () => {
  const read = () => call('GET', `${world.url}/object/pub/${name}`, { headers: world.alice.headers });
  const before = (await read()).headers.get('etag');
  await call('PUT', `${world.url}/object/pub/${name}`, { headers: world.alice.headers, body: 'other' });
  const after = await read();
  expect(after.headers.get('etag')).not.toBe(before);
  expect(after.text).toBe('other');
});

test('rejections are not cached', async () => {
  for (const [path, headers] of [
    [`/object/priv/${name}`, world.bob.headers],
    [`/object/public/pub/none`, {}],
    [`/object/authenticated/priv/${name}`, {}],
  ] as const) {
    expect((await call('GET', `${world.url}${path}`, { headers })).headers.get('cache-control')).toBe(
      'no-store',
    );
  }
});
