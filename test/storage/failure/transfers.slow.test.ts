// Large, slow and broken transfers through a svc process: memory stays flat, and clients that disconnect or stall
// leave nothing behind. SVC_TEST_TRANSFER_MB sets the size of the large ones.
import { readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import type { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { raw } from '../../../src/postgres/sql.ts';
import { call, openRaw, until } from '../conformance/http.ts';
import { storedFiles } from '../conformance/stored-files.ts';
import { s3Server, s3ServerAvailable } from '../conformance/s3-server.ts';
import { aBucket, createWorld, OWN, type World } from '../conformance/world.ts';
import { rounds } from '../../support/rounds.ts';
import type { SvcProcess } from '../../support/svc-process.ts';
import { createStorageProject, type StorageProject } from './project.ts';
import { scaled } from '../../support/run/scaled.ts';

const MB = 1024 * 1024;
const LARGE_MB = rounds(256, 1024, 'SVC_TEST_TRANSFER_MB');
const MAX_GROWTH_MB = 20;

function residentMb(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;
}

function send(svc: SvcProcess, name: string, megabytes: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      `${svc.url}/storage/v1/object/work/${name}`,
      {
        method: 'POST',
        headers: {
          apikey: svc.secretKey,
          'x-upsert': 'true',
          'content-type': 'application/octet-stream',
          'content-length': megabytes * MB,
        },
      },
      (response) => {
        response.resume();
        response.on('end', () => resolve(response.statusCode ?? 0));
      },
    );
    request.on('error', reject);
    const chunk = Buffer.alloc(MB, 7);
    let left = megabytes;
    const push = (): void => {
      while (left > 0) {
        left -= 1;
        if (!request.write(chunk)) {
          request.once('drain', push);
          return;
        }
      }
      request.end();
    };
    push();
  });
}

async function fetchAway(svc: SvcProcess, name: string): Promise<number> {
  const response = await fetch(`${svc.url}/storage/v1/object/work/${name}`, {
    headers: { apikey: svc.secretKey },
  });
  let bytes = 0;
  for await (const chunk of response.body ?? []) bytes += (chunk as Uint8Array).length;
  return bytes;
}

/** Growth of the resident set in MB; the maximum of many samples. */
async function growthWhile(pid: number, work: () => Promise<unknown>): Promise<number> {
  const before = residentMb(pid);
  let highest = before;
  const sampling = setInterval(() => (highest = Math.max(highest, residentMb(pid))), 20);
  try {
    await work();
  } finally {
    clearInterval(sampling);
  }
  return highest - before;
}

function memorySuite(
  megabytes: number,
  { atOnce, warmMegabytes }: { readonly atOnce: number; readonly warmMegabytes: number },
  open: () => Promise<StorageProject>,
): void {
  let project: StorageProject;
  let svc: SvcProcess;
  const names = Array.from({ length: atOnce }, (_, n) => `large-${n}`);
  beforeAll(async () => {
    project = await open();
    svc = await project.start();
    // Warm up, so that the memory of the code itself does not count.
    for (let n = 0; n < 3; n++) {
      await send(svc, 'warm', warmMegabytes);
      await fetchAway(svc, 'warm');
    }
  });
  afterAll(async () => {
    await svc?.stop();
    await project?.remove();
  });

  test(`${atOnce} × ${megabytes} MB up and down`, { timeout: scaled(300_000) }, async () => {
    const pid = svc.child.pid ?? 0;
    const up = await growthWhile(pid, async () => {
      const sent = await Promise.all(names.map((name) => send(svc, name, megabytes)));
      expect(sent.every((status) => status === 200)).toBe(true);
    });
    const down = await growthWhile(pid, async () => {
      const received = await Promise.all(names.map((name) => fetchAway(svc, name)));
      expect(received.every((bytes) => bytes === megabytes * MB)).toBe(true);
    });
    console.info(
      `${atOnce} × ${megabytes} MB: memory grew by ${up.toFixed(1)} MB up, ${down.toFixed(1)} MB down`,
    );
    expect(up).toBeLessThan(MAX_GROWTH_MB * atOnce);
    expect(down).toBeLessThan(MAX_GROWTH_MB * atOnce);
  });
}

describe('memory, local directory', () =>
  memorySuite(LARGE_MB, { atOnce: 1, warmMegabytes: 16 }, () => createStorageProject()));

// Several transfers at once: the garbage collector of an HTTP client runs late and leaves tens of
// megabytes of read data. This happens once per process and not once per transfer.
describe.skipIf(!s3ServerAvailable())('memory, S3-compatible store', () => {
  memorySuite(Math.min(LARGE_MB, 150), { atOnce: 4, warmMegabytes: 64 }, async () => {
    const server = await s3Server();
    await server.createBucket('large');
    return await createStorageProject({ server, bucket: 'large' });
  });
});

describe.skipIf(!s3ServerAvailable())('readers that do not read, S3-compatible store', () => {
  let world: World | undefined;
  afterAll(async () => {
    await world?.stop();
  });

  test('leave the store usable for other clients', async () => {
    const server = await s3Server();
    await server.createBucket('readers');
    const { endpoint, accessKeyId, secretAccessKey } = server;
    world = await createWorld({
      buckets: [aBucket('open', { public: true, rls: [OWN] })],
      provider: { type: 's3', bucket: 'readers', region: undefined, endpoint, accessKeyId, secretAccessKey },
    });
    const { url, alice } = world;
    const put = (name: string, bytes: number) =>
      call('POST', `${url}/object/open/${name}`, { headers: alice.headers, body: Buffer.alloc(bytes) });
    expect((await put('large', 24 * MB)).status).toBe(200);
    const readers = await Promise.all(
      Array.from({ length: 60 }, async () => {
        const reader = await openRaw(url, 'GET', '/storage/v1/object/public/open/large', {});
        await until(() => reader.received().includes('HTTP/1.1 200'));
        reader.socket.pause();
        return reader;
      }),
    );
    expect((await put('small', 10)).status).toBe(200);
    expect((await call('GET', `${url}/object/public/open/small`)).status).toBe(200);
    for (const { socket } of readers) socket.destroy();
  });
});

describe('clients that stop', () => {
  let world: World;
  beforeAll(async () => {
    world = await createWorld({
      buckets: [aBucket('work', { rls: [OWN] })],
      bodyIdleMs: 400,
      uploadMs: 1_500,
    });
  });
  afterAll(() => world?.stop());

  test('while the body is being opened: the body is closed', async () => {
    const { LocalBackend } = await import('../../../src/storage/backend/local.ts');
    const name = 'left-early';
    await call('POST', `${world.url}/object/work/${name}`, {
      headers: world.alice.headers,
      body: Buffer.alloc(MB),
    });
    // Called below with its original `this`.
    // oxlint-disable-next-line typescript/unbound-method
    const { read } = LocalBackend.prototype;
    let body: Readable | Buffer | undefined;
    const spy = vi.spyOn(LocalBackend.prototype, 'read').mockImplementation(async function (
      this: InstanceType<typeof LocalBackend>,
      ...wanted
    ) {
      const opened = await read.apply(this, wanted);
      request.socket.destroy();
      await until(() => request.socket.closed);
      // The server notices later than the client. It answers a later request of another client after that.
      for (let round = 0; round < 3; round++) await call('GET', `${world.origin}/live`);
      body = opened;
      return opened;
    });
    const request = await openRaw(world.url, 'GET', `/storage/v1/object/work/${name}`, world.alice.headers);
    await until(() => body !== undefined);
    await until(() => !Buffer.isBuffer(body) && body?.destroyed === true, 'the file is closed');
    spy.mockRestore();
    await call('DELETE', `${world.url}/object/work/${name}`, { headers: world.alice.headers });
  });

  const pending = async (): Promise<number> =>
    (await world.owner.query(raw('select from storage.pending_blobs'))).length;
  const files = async (): Promise<string[]> => {
    await world.sweep();
    return await storedFiles(world.directory);
  };

  test('a client that stalls is disconnected', async () => {
    const request = await openRaw(world.url, 'POST', '/storage/v1/object/work/stalled', {
      ...world.alice.headers,
      'content-length': '1000000',
    });
    request.socket.write(Buffer.alloc(1000));
    await until(async () => (await pending()) === 1);
    await until(
      () => request.socket.destroyed || request.received().includes('408'),
      'the end of the request',
    );
    await until(async () => (await pending()) === 0);
    expect(await files()).toEqual([]);
    request.socket.destroy();
  });

  test('a form that stalls during its file', async () => {
    const request = await openRaw(world.url, 'POST', '/storage/v1/object/work/form', {
      ...world.alice.headers,
      'content-type': 'multipart/form-data; boundary=cut',
      'content-length': '1000000',
    });
    request.socket.write(
      '--cut\r\nContent-Disposition: form-data; name=""; filename="x"\r\n\r\nthe beginning of',
    );
    await until(async () => (await pending()) === 1);
    request.socket.destroy();
    await until(async () => (await pending()) === 0);
    expect(await files()).toEqual([]);
  });

  test('an upload that trickles past its deadline', async () => {
    const request = await openRaw(world.url, 'POST', '/storage/v1/object/work/trickle', {
      ...world.alice.headers,
      'content-length': '1000000',
    });
    const trickle = setInterval(() => request.socket.write('x'), 50);
    try {
      await until(async () => (await pending()) === 1);
      expect([408, 0]).toContain(await request.answered());
      await until(async () => (await pending()) === 0);
      expect(await files()).toEqual([]);
    } finally {
      clearInterval(trickle);
      request.socket.destroy();
    }
  });

  test('interrupted downloads close their descriptors', async () => {
    const body = Buffer.alloc(8 * MB, 1);
    const upload = await fetch(`${world.url}/object/work/large`, {
      method: 'POST',
      headers: world.alice.headers,
      body,
    });
    expect(upload.status).toBe(200);
    const open = async (): Promise<number> => (await readdir('/proc/self/fd')).length;
    const before = await open();
    for (let n = 0; n < 50; n++) {
      const request = await openRaw(world.url, 'GET', '/storage/v1/object/work/large', world.alice.headers);
      await until(() => request.received().length > 1000);
      request.socket.destroy();
    }
    await until(async () => (await open()) <= before + 3, 'the descriptors');
    await fetch(`${world.url}/object/work/large`, { method: 'DELETE', headers: world.alice.headers });
    expect(await files()).toEqual([]);
  });
});

describe('a download slower than the request deadline', () => {
  test('continues', async () => {
    const world = await createWorld({ buckets: [aBucket('work', { rls: [OWN] })], requestMs: 300 });
    try {
      const body = Buffer.alloc(32 * MB, 1);
      await fetch(`${world.url}/object/work/large`, { method: 'POST', headers: world.alice.headers, body });
      const request = await openRaw(world.url, 'GET', '/storage/v1/object/work/large', {
        ...world.alice.headers,
        connection: 'close',
      });
      let bytes = 0;
      request.socket.removeAllListeners('data').on('data', (chunk: Buffer) => (bytes += chunk.length));
      await until(() => bytes > 0);
      request.socket.pause();
      await new Promise((resolve) => setTimeout(resolve, 700));
      request.socket.resume();
      await until(() => bytes > 32 * MB || request.socket.destroyed);
      expect(bytes).toBeGreaterThan(32 * MB);
    } finally {
      await world.stop();
    }
  });
});
