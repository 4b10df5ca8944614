// Path traversal: malicious names in every parameter, and their effect on disk.
import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../../../src/postgres/sql.ts';
import { LocalBackend } from '../../../src/storage/backend/local.ts';
import { call, openRaw } from '../conformance/http.ts';
import { aBucket, createWorld, OWN, type World } from '../conformance/world.ts';

let world: World;
beforeAll(async () => {
  world = await createWorld({ buckets: [aBucket('b', { rls: [OWN] })] });
});
afterAll(() => world?.stop());

const NAMES = [
  '../up',
  'a/../../up',
  './here',
  'a/./b',
  '/rooted',
  'trailing/',
  '..',
  '.',
  'back\\slash',
  '..\\..\\windows',
  'C:\\drive',
  'nul\0byte',
  'line\nbreak',
  'carriage\rreturn',
  '%2e%2e/encoded',
  'e\u0301',
  'é',
  '\u202egnp.exe',
  'hash#tag',
  'tilde~',
  'x'.repeat(1025),
  '',
];

async function raw(method: string, path: string): Promise<{ status: number; text: string }> {
  const request = await openRaw(world.url, method, path, {
    ...world.alice.headers,
    'content-length': '1',
    connection: 'close',
  });
  request.socket.write('x');
  const status = await request.answered();
  await new Promise((resolve) =>
    request.socket.destroyed ? resolve(undefined) : request.socket.once('close', resolve),
  );
  return { status, text: request.received() };
}

describe.each(NAMES.map((name) => [JSON.stringify(name).slice(0, 40), name]))('%s', (_shown, name) => {
  const encoded = name.split('/').map(encodeURIComponent).join('/').replaceAll('.', '%2E');
  test('in the path of an upload and of a signed upload', async () => {
    for (const [method, path] of [
      ['POST', `/storage/v1/object/b/${encoded}`],
      ['PUT', `/storage/v1/object/b/${encoded}`],
      ['POST', `/storage/v1/object/upload/sign/b/${encoded}`],
    ] as const) {
      const { status, text } = await raw(method, path);
      expect([400, 404], `${method} ${path} ${text}`).toContain(status);
    }
  });
  test('as the destination of a move and of a copy', async () => {
    const source = `s${randomUUID().slice(0, 8)}`;
    await call('POST', `${world.url}/object/b/${source}`, { headers: world.alice.headers, body: 'x' });
    for (const action of ['move', 'copy']) {
      const answer = await call('POST', `${world.url}/object/${action}`, {
        headers: world.alice.headers,
        body: { bucketId: 'b', sourceKey: source, destinationKey: name },
      });
      expect(answer.status).toBe(400);
    }
  });
  test('in a resumable upload, at its creation and in its URL', async () => {
    const metadata = `bucketName ${btoa('b')},objectName ${Buffer.from(name).toString('base64')}`;
    const headers = { ...world.alice.headers, 'tus-resumable': '1.0.0' };
    const created = await call('POST', `${world.url}/upload/resumable`, {
      headers: { ...headers, 'upload-length': '1', 'upload-metadata': metadata },
    });
    expect(created.status).toBe(400);
    for (const id of [`b/${name}/${randomUUID()}`, `b/x/${name}`, name]) {
      const url = `${world.url}/upload/resumable/${Buffer.from(id).toString('base64url')}`;
      expect([400, 404]).toContain((await call('HEAD', url, { headers })).status);
    }
  });
});

test('rejects a path as bucket', async () => {
  for (const bucket of ['..', '%2e%2e', 'b%2F..%2Fb', '.', '%00', 'b%5C..']) {
    expect([400, 404]).toContain((await raw('POST', `/storage/v1/object/${bucket}/x`)).status);
  }
});

test('a path as version in the database reaches no file', async () => {
  const outside = join(world.directory, 'precious');
  await mkdir(world.directory, { recursive: true });
  await writeFile(outside, 'kept');
  const name = `v${randomUUID().slice(0, 8)}`;
  await world.owner.query(sql`
    insert into storage.objects (bucket_id, name, owner_id, version, metadata)
    values ('b', ${name}, ${world.alice.id}, '../precious', '{"size": 4}')`);
  const answer = await call('GET', `${world.url}/object/b/${name}`, { headers: world.alice.headers });
  expect([answer.status, answer.json.code]).toEqual([400, 'NoSuchKey']);
  await call('DELETE', `${world.url}/object/b/${name}`, { headers: world.alice.headers });
  await world.sweep();
  expect(await readdir(world.directory)).toContain('precious');
});

test('a symbolic link under the root is rejected at start, and never followed by a read', async () => {
  const root = await mkdtemp(join(tmpdir(), 'svc-links-'));
  try {
    const secret = join(root, 'secret');
    await writeFile(secret, 'secret');
    const version = randomUUID();
    const shard = join(root, 'blobs', version.slice(0, 2));
    await mkdir(shard, { recursive: true });
    await symlink(secret, join(shard, version));
    await expect(new LocalBackend(root).read(version, 6)).rejects.toThrow();
    const linked = join(root, 'other');
    await mkdir(linked);
    await symlink('/tmp', join(linked, 'blobs'));
    await expect(new LocalBackend(linked).check()).rejects.toThrow(/symbolic link/);
  } finally {
    await rm(root, { recursive: true, force: true });
  }
});
