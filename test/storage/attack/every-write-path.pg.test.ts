// Every kind of write × every caller, as in the table of docs/storage.md: if a policy rejects one kind of write, it
// rejects all of them, and rejected requests leave no bytes.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../../../src/postgres/sql.ts';
import { call, type Answer } from '../conformance/http.ts';
import { storedFiles } from '../conformance/stored-files.ts';
import { aBucket, aPolicy, createWorld, OWN, type World } from '../conformance/world.ts';

let world: World;
beforeAll(async () => {
  world = await createWorld({
    buckets: [
      aBucket('own', { rls: [OWN] }),
      aBucket('drop', { rls: [aPolicy({ operations: ['insert'], check: 'true' })] }),
      aBucket('closed'),
      aBucket('public', { public: true }),
    ].map((bucket) => (bucket.name === 'public' ? { ...bucket, name: 'open' } : bucket)),
  });
});
afterAll(() => world?.stop());

type Who = 'anon' | 'owner' | 'stranger' | 'service';
const CALLERS: readonly Who[] = ['anon', 'owner', 'stranger', 'service'];
const callerHeaders = (caller: Who): Record<string, string> =>
  ({
    anon: world.anonymous,
    owner: world.alice.headers,
    stranger: world.bob.headers,
    service: world.service,
  })[caller];
const put = (
  bucket: string,
  name: string,
  headers: Record<string, string>,
  more: Record<string, string> = {},
): Promise<Answer> =>
  call('POST', `${world.url}/object/${bucket}/${name}`, {
    headers: { ...headers, ...more },
    body: 'content',
  });
const tus = (
  bucket: string,
  name: string,
  headers: Record<string, string>,
  more: Record<string, string> = {},
): Promise<Answer> =>
  call('POST', `${world.url}/upload/resumable`, {
    headers: {
      ...headers,
      'tus-resumable': '1.0.0',
      'upload-length': '7',
      'upload-metadata': `bucketName ${btoa(bucket)},objectName ${btoa(name)}`,
      'content-type': 'application/offset+octet-stream',
      ...more,
    },
    body: 'content',
  });
const post = (
  path: string,
  headers: Record<string, string>,
  body: object,
  more: Record<string, string> = {},
): Promise<Answer> => call('POST', `${world.url}${path}`, { headers: { ...headers, ...more }, body });

/** Each one acts on `name` in bucket `own`, which belongs to the owner unless the write creates it. */
const WAYS: ReadonlyArray<{
  readonly way: string;
  readonly exists: boolean;
  readonly act: (name: string, headers: Record<string, string>) => Promise<Answer>;
  readonly allowed: Readonly<Record<Who, boolean>>;
}> = [
  {
    way: 'upload a new object',
    exists: false,
    act: (name, headers) => put('own', name, headers),
    // The uploader becomes the owner, so this policy lets every user upload. A key alone owns nothing.
    allowed: { anon: false, owner: true, stranger: true, service: true },
  },
  {
    way: 'replace by upload',
    exists: true,
    act: (name, headers) => put('own', name, headers, { 'x-upsert': 'true' }),
    allowed: { anon: false, owner: true, stranger: false, service: true },
  },
  {
    way: 'replace by PUT',
    exists: true,
    act: (name, headers) => call('PUT', `${world.url}/object/own/${name}`, { headers, body: 'content' }),
    allowed: { anon: false, owner: true, stranger: false, service: true },
  },
  {
    way: 'make an upload link that replaces',
    exists: true,
    act: (name, headers) => post(`/object/upload/sign/own/${name}`, headers, {}, { 'x-upsert': 'true' }),
    allowed: { anon: false, owner: true, stranger: false, service: true },
  },
  {
    way: 'replace by resumable upload',
    exists: true,
    act: (name, headers) => tus('own', name, headers, { 'x-upsert': 'true' }),
    allowed: { anon: false, owner: true, stranger: false, service: true },
  },
  {
    way: 'new by resumable upload',
    exists: false,
    act: (name, headers) => tus('own', name, headers),
    allowed: { anon: false, owner: true, stranger: true, service: true },
  },
  {
    way: 'move away',
    exists: true,
    act: (name, headers) =>
      post('/object/move', headers, { bucketId: 'own', sourceKey: name, destinationKey: `${name}-moved` }),
    // The service has no user id and bypasses policies, so it is allowed.
    allowed: { anon: false, owner: true, stranger: false, service: true },
  },
  {
    way: 'move over another object',
    exists: true,
    act: async (name, headers) => {
      const source = `src-${randomUUID()}`;
      await put('own', source, headers);
      await post('/object/move', headers, { bucketId: 'own', sourceKey: source, destinationKey: name });
      const now = await call('GET', `${world.url}/object/own/${name}`, { headers: world.service });
      // No caller is allowed: a move never replaces.
      return now.text === 'original' ? { ...now, status: 400 } : now;
    },
    allowed: { anon: false, owner: false, stranger: false, service: false },
  },
  {
    way: 'copy',
    exists: true,
    act: (name, headers) =>
      post('/object/copy', headers, { bucketId: 'own', sourceKey: name, destinationKey: `${name}-copy` }),
    allowed: { anon: false, owner: true, stranger: false, service: true },
  },
  {
    way: 'copy over another object',
    exists: true,
    act: async (name, headers) => {
      const source = `src-${randomUUID()}`;
      await put('own', source, headers);
      return await post(
        '/object/copy',
        headers,
        { bucketId: 'own', sourceKey: source, destinationKey: name },
        { 'x-upsert': 'true' },
      );
    },
    allowed: { anon: false, owner: true, stranger: false, service: true },
  },
  {
    way: 'delete one',
    exists: true,
    act: (name, headers) => call('DELETE', `${world.url}/object/own/${name}`, { headers }),
    allowed: { anon: false, owner: true, stranger: false, service: true },
  },
  {
    way: 'delete many',
    exists: true,
    act: async (name, headers) => {
      const answer = await call('DELETE', `${world.url}/object/own`, { headers, body: { prefixes: [name] } });
      return answer.json.length === 1 ? answer : { ...answer, status: 400 };
    },
    allowed: { anon: false, owner: true, stranger: false, service: true },
  },
  {
    way: 'download',
    exists: true,
    act: (name, headers) => call('GET', `${world.url}/object/authenticated/own/${name}`, { headers }),
    allowed: { anon: false, owner: true, stranger: false, service: true },
  },
  {
    way: 'make a download link',
    exists: true,
    act: (name, headers) => post(`/object/sign/own/${name}`, headers, { expiresIn: 60 }),
    allowed: { anon: false, owner: true, stranger: false, service: true },
  },
  {
    way: 'list',
    exists: true,
    act: async (name, headers) => {
      const answer = await post('/object/list/own', headers, { prefix: '', search: name });
      return answer.json.length === 1 ? answer : { ...answer, status: 400 };
    },
    allowed: { anon: false, owner: true, stranger: false, service: true },
  },
];

describe.each(WAYS)('$way', ({ exists, act, allowed }) => {
  test.each(CALLERS)('%s', async (caller) => {
    const name = `o-${randomUUID()}`;
    if (exists) {
      await call('POST', `${world.url}/object/own/${name}`, {
        headers: world.alice.headers,
        body: 'original',
      });
    }
    const answer = await act(name, callerHeaders(caller));
    expect(answer.status >= 200 && answer.status < 300, answer.text).toBe(allowed[caller]);
    if (allowed[caller] || !exists) return;
    const now = await call('GET', `${world.url}/object/own/${name}`, { headers: world.alice.headers });
    expect(now.text).toBe('original');
  });
});

describe('a bucket that everyone can upload to and no caller can read', () => {
  test('new names only', async () => {
    const name = `d-${randomUUID()}`;
    expect((await put('drop', name, world.anonymous)).status).toBe(200);
    expect((await put('drop', `${name}2`, world.anonymous, { 'x-upsert': 'true' })).json.statusCode).toBe(
      '403',
    );
    expect((await put('drop', name, world.bob.headers)).json.statusCode).toBe('409');
    expect((await tus('drop', `${name}3`, world.bob.headers)).status).toBe(201);
    expect((await tus('drop', `${name}4`, world.bob.headers, { 'x-upsert': 'true' })).status).toBe(403);
    const moved = `m-${randomUUID()}`;
    await put('own', moved, world.alice.headers);
    const move = await post('/object/move', world.alice.headers, {
      bucketId: 'own',
      sourceKey: moved,
      destinationBucket: 'drop',
      destinationKey: moved,
    });
    expect(move.json.statusCode).toBe('403');
  });
});

test('a bucket without policies is closed, and a public one is public by address only', async () => {
  for (const bucket of ['closed', 'open']) {
    for (const headers of [world.anonymous, world.alice.headers]) {
      expect((await put(bucket, 'x', headers)).json.statusCode).toBe('403');
      expect((await post(`/object/list/${bucket}`, headers, { prefix: '' })).json).toEqual([]);
    }
  }
  await put('open', 'seen', world.service);
  expect((await call('GET', `${world.url}/object/public/open/seen`)).text).toBe('content');
  expect((await post('/object/list/open', world.alice.headers, { prefix: '' })).json).toEqual([]);
});

test('no token, signature or header changes the caller', async () => {
  const name = `o-${randomUUID()}`;
  await put('own', name, world.alice.headers);
  const attempts: ReadonlyArray<Record<string, string>> = [
    { ...world.bob.headers, 'x-owner': world.alice.id, owner_id: world.alice.id },
    { ...world.bob.headers, 'x-signature': world.alice.token },
    { apikey: world.alice.token },
  ];
  for (const headers of attempts) {
    const answer = await put('own', name, headers, {
      'x-upsert': 'true',
      'x-metadata': btoa('{"owner_id":"x","role":"service_role"}'),
    });
    expect(answer.status).toBeGreaterThanOrEqual(400);
  }
  const sign = await post(`/object/sign/own/${name}`, world.alice.headers, {
    expiresIn: 60,
    url: 'own/other',
    role: 'service_role',
    scope: 'upload',
    upsert: true,
  });
  const token = sign.json.signedURL.split('token=')[1]?.split('.')[1] ?? '';
  const claims = JSON.parse(Buffer.from(token, 'base64url').toString()) as object;
  expect(Object.keys(claims).sort()).toEqual(['exp', 'iat', 'scope', 'url']);
});

test('rejected requests leave no bytes', async () => {
  await world.sweep();
  const blobs = await storedFiles(world.directory);
  const rows = await world.owner.query<{ version: string }>(
    sql`select version from storage.objects union select version from storage.pending_blobs`,
  );
  const known = new Set(rows.map((row) => row.version));
  expect(blobs.filter((blob) => !known.has(blob))).toEqual([]);
});
