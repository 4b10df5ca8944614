// Creates each state that a crash can leave and checks its cleanup. Also tests a full disk, a server killed between
// parts of a resumable upload, and a store full of unknown bytes.
import { spawnSync } from 'node:child_process';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SERVICE } from '../../../src/identity/caller.ts';
import { silentLog } from '../../../src/log/log.ts';
import { raw, sql } from '../../../src/postgres/sql.ts';
import { blobGrace, Cleanup } from '../../../src/storage/cleanup/cleanup.ts';
import { call, until } from '../conformance/http.ts';
import { storedFiles } from '../conformance/stored-files.ts';
import { aBucket, createWorld, OWN, type World } from '../conformance/world.ts';
import { createStorageProject } from './project.ts';
import { scaled } from '../../support/run/scaled.ts';

describe('what a crash leaves is cleaned up', () => {
  let world: World;
  beforeAll(async () => {
    world = await createWorld({ buckets: [aBucket('b', { rls: [OWN] })] });
    await call('POST', `${world.url}/object/b/first`, { headers: world.alice.headers, body: 'x' });
  });
  afterAll(() => world?.stop());

  const files = (): Promise<string[]> => storedFiles(world.directory);
  const reserve = (version: string, expired: boolean): Promise<unknown> =>
    world.owner.query(sql`insert into storage.pending_blobs (version, bucket_id, name, expires_at)
      values (${version}, 'b', ${version}, now() + make_interval(mins => ${expired ? -1 : 5}))`);
  const stage = (version: string): Promise<void> =>
    writeFile(join(world.directory, 'staging', version), 'half');
  async function* bytes(text: string): AsyncIterable<Buffer> {
    yield Buffer.from(text);
  }

  test.each([
    ['reserved, nothing stored', async (version: string) => reserve(version, true)],
    [
      'reserved, half of the bytes staged',
      async (version: string) => {
        await reserve(version, true);
        await stage(version);
      },
    ],
    [
      'reserved, all bytes in place, not committed',
      async (version: string) => {
        await reserve(version, true);
        await world.backend().write(version, bytes('whole'), 5);
      },
    ],
  ])('%s: deleted after its grace period', async (_state, leave) => {
    const version = randomUUID();
    await leave(version);
    await world.sweep();
    expect(await files()).not.toContain(version);
    expect(await world.owner.query(raw('select from storage.pending_blobs'))).toEqual([]);
    expect(await world.owner.query(raw('select from storage.blob_gc'))).toEqual([]);
  });

  test('committed, the replaced bytes not deleted: the outbox continues', async () => {
    const name = randomUUID();
    await call('POST', `${world.url}/object/b/${name}`, { headers: world.alice.headers, body: 'one' });
    const [before] = await world.owner.query<{ version: string }>(
      sql`select version from storage.objects where name = ${name}`,
    );
    const version = randomUUID();
    await world.backend().write(version, bytes('two'), 3);
    await world.owner.query(sql`update storage.objects set version = ${version} where name = ${name}`);
    await world.sweep();
    expect(await files()).toContain(version);
    expect(await files()).not.toContain(before?.version);
  });

  test('deleted on the disk, still in the outbox: deleting again has no effect', async () => {
    await world.owner.query(
      sql`insert into storage.blob_gc (version, reason) values (${randomUUID()}, 'deleted')`,
    );
    await world.sweep();
    expect(await world.owner.query(raw('select from storage.blob_gc'))).toEqual([]);
  });

  test('an upload that outlived its reservation is not committed', async () => {
    const { commitAs } = await import('../../../src/storage/objects/commit.ts');
    const version = randomUUID();
    await reserve(version, true);
    await world.backend().write(version, bytes('late'), 4);
    await world.sweep();
    const metadata = {
      eTag: '"x"',
      size: 4,
      mimetype: 'text/plain',
      cacheControl: 'no-cache',
      lastModified: new Date().toISOString(),
      contentLength: 4,
      httpStatusCode: 200,
    };
    const stored = await commitAs(
      world,
      SERVICE,
      { bucket: 'b', name: version, version, ownerId: null, metadata, userMetadata: null },
      true,
    );
    expect(stored).toBeUndefined();
  });

  test('uploads in progress are kept', async () => {
    const version = randomUUID();
    await reserve(version, false);
    await stage(version);
    await world.sweep();
    await world.storage.sweepOrphans({ minAgeMs: 0 });
    expect(await files()).toContain(version);
    await world.owner.query(
      sql`update storage.pending_blobs set expires_at = now() where version = ${version}`,
    );
    await world.sweep();
    expect(await files()).not.toContain(version);
  });

  test('after a restore unknown bytes are kept until their grace period ends', async () => {
    const version = randomUUID();
    await stage(version);
    await world.owner.query(
      raw(`insert into svc_meta.restore (taken_at, sweep_from) values (now(), now() + interval '1 day')`),
    );
    expect(await world.storage.sweepOrphans({ minAgeMs: 0 })).toMatchObject({ orphans: 1, deleted: 0 });
    await world.owner.query(raw('update svc_meta.restore set sweep_from = now()'));
    expect(await world.storage.sweepOrphans({ minAgeMs: 0 })).toMatchObject({ orphans: 1, deleted: 1 });
    expect(await files()).not.toContain(version);
  });

  test('unknown bytes: only old ones are deleted, and many only on request', async () => {
    const young = randomUUID();
    await stage(young);
    expect((await world.storage.sweepOrphans()).deleted).toBe(0);
    const longAgo = new Date(Date.now() - 48 * 60 * 60_000);
    const old = Array.from({ length: 150 }, () => randomUUID());
    for (const version of old) {
      await stage(version);
      await utimes(join(world.directory, 'staging', version), longAgo, longAgo);
    }
    expect(await world.storage.sweepOrphans()).toMatchObject({ orphans: 150, deleted: 0, refused: true });
    expect(await world.storage.sweepOrphans({ force: true })).toMatchObject({ deleted: 150, refused: false });
    expect(await files()).toContain(young);
    await world.storage.sweepOrphans({ minAgeMs: 0, force: true });
    expect(await files()).not.toContain(young);
  });

  test('an object whose bytes are gone is reported, and its row is kept', async () => {
    const name = randomUUID();
    await call('POST', `${world.url}/object/b/${name}`, { headers: world.alice.headers, body: 'lost' });
    const [row] = await world.owner.query<{ version: string }>(
      sql`select version from storage.objects where name = ${name}`,
    );
    await world.backend().remove([{ version: row?.version ?? '', staged: false }]);
    expect((await world.storage.sweepOrphans()).missing).toEqual([`b/${name}`]);
    const answer = await call('GET', `${world.url}/object/b/${name}`, { headers: world.alice.headers });
    expect([answer.json.message, answer.headers.get('cache-control')]).toEqual([
      'The resource was not found',
      'no-store',
    ]);
    expect(
      (await call('DELETE', `${world.url}/object/b/${name}`, { headers: world.alice.headers })).status,
    ).toBe(200);
  });
});

test('SVC_BLOB_GRACE keeps the bytes of deleted files for this time, also without free space', async () => {
  const log = silentLog;
  const world = await createWorld({ buckets: [aBucket('b', { rls: [OWN] })] });
  const cleanup = new Cleanup({
    owner: world.owner,
    backend: () => world.backend(),
    log,
    graceMs: blobGrace({ SVC_BLOB_GRACE: '7d' }),
  });
  try {
    for (const name of ['kept', 'gone'])
      await call('POST', `${world.url}/object/b/${name}`, { headers: world.alice.headers, body: 'x' });
    for (const [name, days] of [
      ['kept', 6],
      ['gone', 8],
    ] as const) {
      // With SQL: a request would wake the cleanup of the server, which has no grace period here.
      await world.owner.query(sql`delete from storage.objects where name = ${name}`);
      await world.owner.query(
        sql`update storage.blob_gc set queued_at = now() - make_interval(days => ${days}) where name = ${name}`,
      );
    }
    cleanup.makeRoom();
    await until(async () => {
      const left = await world.owner.query<{ name: string }>(raw('select name from storage.blob_gc'));
      return left.length === 1 && left[0]?.name === 'kept';
    });
    expect(await storedFiles(world.directory)).toHaveLength(1);
    expect(() => blobGrace({ SVC_BLOB_GRACE: 'a week' })).toThrow(/SVC_BLOB_GRACE is "a week"/);
    expect(blobGrace({})).toBeUndefined();
  } finally {
    await cleanup.stop();
    await world.stop();
  }
});

test('another location for the bytes is rejected while there are objects', async () => {
  const { verifyLocation } = await import('../../../src/storage/backend/location.ts');
  const world = await createWorld({ buckets: [aBucket('b', { rls: [OWN] })] });
  try {
    const moved = Object.assign(Object.create(world.backend()) as ReturnType<World['backend']>, {
      place: { kind: 's3', endpoint: 'elsewhere', bucket: 'bucket', prefix: '' },
      check: () => Promise.resolve(),
    });
    await call('POST', `${world.url}/object/b/one`, { headers: world.alice.headers, body: 'x' });
    await expect(verifyLocation(world.owner, moved)).rejects.toMatchObject({ code: 'storage_elsewhere' });
    await call('DELETE', `${world.url}/object/b/one`, { headers: world.alice.headers });
    await world.sweep();
    await expect(verifyLocation(world.owner, moved)).resolves.toBeUndefined();
  } finally {
    await world.stop();
  }
});

async function isLeased(databaseUrl: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const { rows } = await client.query('select from storage.resumable_uploads where writer is not null');
    return rows.length > 0;
  } finally {
    await client.end();
  }
}

const canMount = process.platform === 'linux' && process.getuid?.() === 0;
test.skipIf(!canMount)('a full disk', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-full-'));
  const disk = join(folder, 'disk');
  await mkdir(disk);
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', disk]).status !== 0) {
    await rm(folder, { recursive: true, force: true });
    return;
  }
  const world = await createWorld({
    buckets: [aBucket('b', { rls: [OWN] })],
    provider: { type: 'local', path: disk },
  });
  try {
    const put = (name: string, bytes: number): ReturnType<typeof call> =>
      call('POST', `${world.url}/object/b/${name}`, {
        headers: world.alice.headers,
        body: randomBytes(bytes),
      });
    expect((await put('small', 1000)).status).toBe(200);
    const full = await put('large', 5_000_000);
    expect([full.status, full.json.code]).toEqual([507, 'InsufficientStorage']);
    await world.sweep();
    expect(await readdir(join(disk, 'staging'))).toEqual([]);
    expect(
      (await call('GET', `${world.url}/object/b/small`, { headers: world.alice.headers })).bytes,
    ).toHaveLength(1000);
    expect((await put('small2', 1000)).status).toBe(200);
  } finally {
    await world.stop();
    spawnSync('umount', [disk]);
    await rm(folder, { recursive: true, force: true });
  }
});

test(
  'a resumable upload continues after the server was killed between and during parts',
  { timeout: scaled(300_000) },
  async () => {
    const project = await createStorageProject();
    let svc = await project.start();
    try {
      const body = randomBytes(3_000_000);
      const headers = { apikey: svc.secretKey, 'tus-resumable': '1.0.0' };
      const created = await call('POST', `${svc.url}/storage/v1/upload/resumable`, {
        headers: {
          ...headers,
          'upload-length': String(body.length),
          'upload-metadata': `bucketName ${btoa('work')},objectName ${btoa('large')}`,
        },
      });
      const path = new URL(created.headers.get('location') ?? '').pathname;
      const patch = (offset: number, piece: Buffer): ReturnType<typeof call> =>
        call('PATCH', `${svc.url}${path}`, {
          headers: {
            ...headers,
            'upload-offset': String(offset),
            'content-type': 'application/offset+octet-stream',
          },
          body: piece,
        });
      // Rejected until the lease of a writer that died has expired.
      const offset = async (): Promise<number> => {
        let offset = '';
        await expect
          .poll(
            async () => {
              const answer = await call('HEAD', `${svc.url}${path}`, { headers });
              offset = answer.headers.get('upload-offset') ?? '';
              return answer.status;
            },
            { timeout: scaled(90_000) },
          )
          .toBe(200);
        return Number(offset);
      };

      expect((await patch(0, body.subarray(0, 1_000_000))).status).toBe(204);
      await svc.stop('SIGKILL');
      svc = await project.start();
      expect(await offset()).toBe(1_000_000);

      const interrupted = patch(1_000_000, body.subarray(1_000_000)).catch(() => undefined);
      // Waits until the server writes or has written everything.
      await Promise.race([interrupted, until(() => isLeased(project.databaseUrl))]);
      await svc.stop('SIGKILL');
      await interrupted;
      svc = await project.start();
      const from = await offset();
      expect(from).toBeGreaterThanOrEqual(1_000_000);
      if (from < body.length) {
        // The writer died with its lease; the next one waits until it has expired.
        await expect
          .poll(async () => (await patch(from, body.subarray(from))).status, { timeout: scaled(90_000) })
          .toBe(204);
      }
      const back = await call('GET', `${svc.url}/storage/v1/object/work/large`, { headers });
      expect(createHash('md5').update(back.bytes).digest('hex')).toBe(
        createHash('md5').update(body).digest('hex'),
      );
    } finally {
      await svc.stop('SIGKILL');
      await project.remove();
    }
  },
);
