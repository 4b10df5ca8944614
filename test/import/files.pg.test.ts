// Files of a Supabase project: bytes, types, owners and metadata arrive. Missing files are reported, existing ones
// are kept.
import { createHash } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openBoxes } from '../../src/auth/auth-context.ts';
import { Keyring } from '../../src/identity/keyring.ts';
import { listChanges } from '../../src/import/changes.ts';
import { copy } from '../../src/import/copy.ts';
import type { BytesSource } from '../../src/import/bytes/bytes-source.ts';
import { storageApi } from '../../src/import/bytes/storage-api.ts';
import { copyFiles, type FileResult } from '../../src/import/files.ts';
import { cutOver, verify } from '../../src/import/finish.ts';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';
import { raw } from '../../src/postgres/sql.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { provisionAt } from '../support/provision.ts';
import { createTypicalProject, IDS, type SupabaseProject } from './supabase-project.ts';

const KEY = 'sb_secret_of_the_source';

let project: SupabaseProject;
let world: BackendWorld;
let api: Server;
/** Content of the source's storage API, by path. */
const bytes = new Map<string, Buffer>();
let requests: string[] = [];
let knowsRanges = true;
const BROKEN_AT = 10_000;
/** Paths whose next transfer breaks off. */
const breaking = new Set<string>();
/** Paths that the source redirects. */
const moved = new Set<string>();

beforeAll(async () => {
  project = await createTypicalProject();
  api = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? '').replace('/storage/v1/object/authenticated/', '');
    const start = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
    requests.push(start === 0 ? path : `${path} from ${start}`);
    const body = bytes.get(path);
    if (moved.has(path))
      response.writeHead(302, { location: `http://localhost:${serverPort(api)}/elsewhere` }).end();
    else if (request.headers.authorization !== `Bearer ${KEY}` || request.headers['apikey'] !== KEY)
      response.writeHead(400).end('{"statusCode":"403","error":"Unauthorized","message":"jwt malformed"}');
    else if (body === undefined) response.writeHead(400).end('{"statusCode":"404","error":"not_found"}');
    else if (start > 0 && knowsRanges) response.writeHead(206).end(body.subarray(start));
    else response.writeHead(200, { 'content-length': body.length }).end(body);
  });
  await new Promise<void>((resolve) => api.listen(0, '127.0.0.1', resolve));
  world = await startBackendWorld('version: 1\nstorage: { pictures: { public: true } }', {
    importPreview: true,
    files: { 'note.txt': '' },
  });
  await addFile('pictures', 'ann/face.png', Buffer.from('not really a picture'));
  await addFile('pictures', 'a folder/grosses', Buffer.alloc(3_000_000, 'x'));
  await addFile('pictures', 'lost.png', Buffer.from('lost'));
  await addFile('pictures', 'empty.txt', Buffer.alloc(0));
  await addFile('pictures', 'crème.png', Buffer.from('a name that is not possible here'));
  await addFile('papers', 'secret.pdf', Buffer.from('of a bucket that is not declared'));
  bytes.delete('pictures/lost.png');
  const { ownerUrl } = await provisionAt(world.databaseUrl);
  await copy(await both(ownerUrl));
});
afterAll(async () => {
  await world?.close();
  await project?.drop();
  api?.close();
});

async function both(ownerUrl: string) {
  const keyring = await Keyring.open(world.owner, { current: world.keys.secret, previous: [] });
  return {
    source: parseAddress(project.url),
    target: parseAddress(ownerUrl),
    secrets: { sourceKeys: new Map<string, Buffer>(), boxes: openBoxes(keyring) },
  };
}

const serverPort = (server: Server): number => (server.address() as AddressInfo).port;

async function addFile(bucket: string, name: string, content: Buffer): Promise<void> {
  bytes.set(`${bucket}/${name}`, content);
  const metadata = {
    eTag: `"${createHash('md5').update(content).digest('hex')}"`,
    size: content.length,
    mimetype: 'image/png',
    cacheControl: 'max-age=60',
  };
  await project.query(
    `insert into storage.objects (bucket_id, name, owner, owner_id, metadata, user_metadata, version, created_at)
     values ($1, $2, $3::uuid, $3::text, $4, '{"by": "Ann"}', gen_random_uuid(), '2026-01-02T03:04:05.678901Z')
     on conflict (bucket_id, name) do update set metadata = excluded.metadata, version = excluded.version`,
    [bucket, name, IDS.ann, JSON.stringify(metadata)],
  );
}

function thatBreaks(source: BytesSource): BytesSource {
  async function* start(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of body) {
      yield chunk.subarray(0, BROKEN_AT);
      throw new Error('the connection broke');
    }
  }
  return {
    ...source,
    async open(file, from) {
      const body = await source.open(file, from);
      return 'why' in body || !breaking.delete(`${file.bucket}/${file.name}`) ? body : start(body);
    },
  };
}

async function run(key = KEY): Promise<FileResult> {
  requests = [];
  return await copyFiles({
    source: parseAddress(project.url),
    owner: world.owner,
    config: world.options.config,
    bytes: thatBreaks(storageApi({ url: `http://127.0.0.1:${serverPort(api)}/`, key })),
  });
}

const MISSING = [
  { name: 'pictures/crème.png', why: 'its name has characters that are not possible here' },
  { name: 'pictures/lost.png', why: 'the source does not have its bytes' },
];

test('bytes, ids, owners and metadata arrive, and missing files are reported', async () => {
  breaking.add('pictures/a folder/grosses');
  expect(await run()).toEqual({ copied: 3, removed: 0, unchanged: 0, missing: MISSING, unproven: [] });
  const large = 'pictures/a folder/grosses';
  expect(requests.filter((path) => path.startsWith(large))).toEqual([large, `${large} from ${BROKEN_AT}`]);
  const client = createClient(world.url, world.keys.secret);
  for (const name of ['ann/face.png', 'a folder/grosses', 'empty.txt']) {
    const { data, error } = await client.storage.from('pictures').download(name);
    expect(error).toBeNull();
    expect(Buffer.from(await data!.arrayBuffer()).equals(bytes.get(`pictures/${name}`)!)).toBe(true);
    expect(data!.type).toBe('image/png');
  }
  const query = `select id, name, owner_id, user_metadata, created_at::text, metadata ->> 'eTag' as tag,
    metadata ->> 'cacheControl' as cache from storage.objects where bucket_id = 'pictures' and name = 'ann/face.png'`;
  expect(await world.owner.query(raw(query))).toEqual((await project.query(query)).rows);
});

test('a second run copies nothing; a changed file is copied again, a deleted one is deleted', async () => {
  expect(await run()).toEqual({ copied: 0, removed: 0, unchanged: 3, missing: MISSING, unproven: [] });
  expect(requests).toEqual(['pictures/lost.png']);
  await addFile('pictures', 'ann/face.png', Buffer.from('another picture'));
  await project.query(`delete from storage.objects where name in ('empty.txt', 'crème.png')`);
  expect(await verify(await both((await provisionAt(world.databaseUrl)).ownerUrl))).toContain(
    '3 files are not here yet, or are gone at the source',
  );
  expect(await run()).toMatchObject({ copied: 1, removed: 1, unchanged: 1 });
  const client = createClient(world.url, world.keys.secret);
  const { data } = await client.storage.from('pictures').download('ann/face.png');
  expect(await data?.text()).toBe('another picture');
  expect((await client.storage.from('pictures').download('empty.txt')).error).not.toBeNull();
});

test('a transfer restarts if the source does not support ranges', async () => {
  await addFile('pictures', 'long.png', Buffer.alloc(50_000, 'y'));
  breaking.add('pictures/long.png');
  knowsRanges = false;
  expect(await run()).toMatchObject({ copied: 1 });
  expect(requests.filter((path) => path.startsWith('pictures/long.png'))).toEqual([
    'pictures/long.png',
    `pictures/long.png from ${BROKEN_AT}`,
    'pictures/long.png',
  ]);
});

test('a rejected key is reported once, not for each file', async () => {
  await addFile('pictures', 'late.png', Buffer.from('late'));
  await expect(run('wrong')).rejects.toThrow(/^The storage API at http:\S+ refuses the key$/);
  expect(await run()).toMatchObject({ copied: 1 });
});

test('bytes that do not match the checksum of the source are not stored', async () => {
  await addFile('pictures', 'damaged.png', Buffer.from('as it was'));
  bytes.set('pictures/damaged.png', Buffer.from('as it IS.'));
  expect((await run()).missing).toContainEqual({
    name: 'pictures/damaged.png',
    why: 'the bytes do not match the checksum',
  });
  const rows = await world.owner.query(raw(`select from storage.objects where name = 'damaged.png'`));
  expect(rows).toEqual([]);
});

test('a file that was uploaded in parts is verified, or reported as compared only by size', async () => {
  const parts = [Buffer.alloc(5 * 1024 * 1024, 'a'), Buffer.alloc(1_000_000, 'b')];
  const md5 = (part: Buffer) => createHash('md5').update(part).digest();
  const tag = `"${md5(Buffer.concat(parts.map(md5))).toString('hex')}-2"`;
  for (const [name, eTag] of [
    ['in-parts.bin', tag],
    ['in-odd-parts.bin', tag.replace('-2', '-3')],
  ]) {
    await addFile('pictures', String(name), Buffer.concat(parts));
    await project.query(
      `update storage.objects set metadata = metadata || jsonb_build_object('eTag', $2::text) where name = $1`,
      [name, eTag],
    );
  }
  expect(await run()).toMatchObject({ copied: 2, unproven: ['pictures/in-odd-parts.bin'] });
});

test('an existing file is not overwritten', async () => {
  const client = createClient(world.url, world.keys.secret);
  await client.storage.from('pictures').upload('own.txt', 'mine');
  await addFile('pictures', 'own.txt', Buffer.from('theirs'));
  expect((await run()).missing).toContainEqual({
    name: 'pictures/own.txt',
    why: 'the target has another file of this name',
  });
  const { data } = await client.storage.from('pictures').download('own.txt');
  expect(await data?.text()).toBe('mine');
});

test('the secret key of the source is not sent to another address', async () => {
  await addFile('pictures', 'moved.png', Buffer.from('moved'));
  moved.add('pictures/moved.png');
  expect((await run()).missing).toContainEqual({
    name: 'pictures/moved.png',
    why: 'the source answers 302',
  });
  expect(requests).not.toContain('/elsewhere');
});

test('after the cut-over, changes lists files that were uploaded, replaced and deleted at the target', async () => {
  const options = { ...(await both((await provisionAt(world.databaseUrl)).ownerUrl)), out: undefined };
  await cutOver({ ...options, dropFactors: false });
  const files = async () => (await listChanges(options)).find(({ table }) => table === 'storage.objects');
  // own.txt and moved.png also exist at the source. own.txt is a different file at the target.
  expect(await files()).toMatchObject({ inserted: 1, updated: 0, deleted: 0 });
  const bucket = createClient(world.url, world.keys.secret).storage.from('pictures');
  await bucket.upload('since.txt', 'new');
  await bucket.upload('ann/face.png', 'replaced', { upsert: true });
  await bucket.remove(['a folder/grosses']);
  expect(await files()).toMatchObject({ inserted: 2, updated: 1, deleted: 1 });
});
