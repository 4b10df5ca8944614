// A full file system: incomplete files leave nothing, and everything else keeps working.
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { LocalBackend } from '../../../src/storage/backend/local.ts';
import { call, until } from '../conformance/http.ts';
import { aBucket, createWorld, OWN, type World } from '../conformance/world.ts';

const KB = 1024;
const place = mkdtempSync(join(tmpdir(), 'svc-full-'));
const mounted = mount();

/** Only root may mount a small file system. */
function mount(): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=3m', 'svc-full', place], { stdio: 'ignore' });
    return true;
  } catch {
    console.log('no file system can be mounted here: the tests of a full one are skipped');
    return false;
  }
}

let world: World;
beforeAll(async () => {
  if (!mounted) return;
  world = await createWorld({
    buckets: [aBucket('b', { rls: [OWN] })],
    provider: { type: 'local', path: place },
    // Long enough that nothing is deleted in time unless the test requests it.
    storage: { cleanup: { pollMs: 3_600_000 } },
  });
});
afterAll(async () => {
  await world?.stop();
  if (mounted) execFileSync('umount', [place]);
  rmdirSync(place);
});

const url = (name: string): string => `${world.url}/object/b/${name}`;
const put = (name: string, bytes: number) =>
  call('POST', url(name), { headers: world.alice.headers, body: Buffer.alloc(bytes, 1) });
const files = async (): Promise<string[]> =>
  (await readdir(place, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
const TUS = { 'tus-resumable': '1.0.0' };
const CHUNK = { ...TUS, 'content-type': 'application/offset+octet-stream' };

describe.skipIf(!mounted)('a full disk', () => {
  test('rejects files that do not fit, with every kind of upload, and keeps none of their bytes', async () => {
    expect((await put('small', 10)).status).toBe(200);
    const before = await files();
    const large = Buffer.alloc(4 * KB * KB, 1);
    const form = new FormData();
    form.append('', new Blob([large]), 'x');
    const name = randomUUID();
    const refusals = [
      await put(name, large.length),
      await call('POST', url(name), { headers: world.alice.headers, body: form }),
    ];
    for (const refusal of refusals) {
      expect([refusal.status, refusal.json.statusCode, refusal.json.code]).toEqual([
        507,
        '507',
        'InsufficientStorage',
      ]);
      expect(refusal.text).not.toContain(place);
    }
    const tus = await call('POST', `${world.url}/upload/resumable`, {
      headers: {
        ...world.alice.headers,
        ...CHUNK,
        'upload-length': String(large.length),
        'upload-metadata': `bucketName ${btoa('b')},objectName ${btoa(name)}`,
      },
      body: large,
    });
    expect(tus.status).toBe(507);

    const left = (await files()).filter((file) => !before.includes(file));
    // The resumable upload may continue from its beginning: it has only an empty file.
    expect(await Promise.all(left.map(async (file) => (await stat(file)).size))).toEqual([0]);
    expect((await call('GET', url('small'), { headers: world.alice.headers })).status).toBe(200);
    expect((await put('another', 10)).status).toBe(200);
  });

  test('a resumable upload continues at its offset once there is space', async () => {
    expect((await put('filler', 1_500 * KB)).status).toBe(200);
    const parts = [Buffer.alloc(700 * KB, 1), Buffer.alloc(1_300 * KB, 2)] as const;
    const begun = await call('POST', `${world.url}/upload/resumable`, {
      headers: {
        ...world.alice.headers,
        ...CHUNK,
        'upload-length': String(2_000 * KB),
        'upload-metadata': `bucketName ${btoa('b')},objectName ${btoa('resumed')}`,
      },
      body: parts[0],
    });
    expect(begun.status).toBe(201);
    const location = begun.headers.get('location') ?? '';
    const patch = () =>
      call('PATCH', location, {
        headers: { ...world.alice.headers, ...CHUNK, 'upload-offset': String(parts[0].length) },
        body: parts[1],
      });
    expect((await patch()).status).toBe(507);
    const head = await call('HEAD', location, { headers: { ...world.alice.headers, ...TUS } });
    expect(head.headers.get('upload-offset')).toBe(String(parts[0].length));
    await call('DELETE', url('filler'), { headers: world.alice.headers });
    await until(async () => (await patch()).status === 204);
    const whole = await call('GET', url('resumed'), { headers: world.alice.headers });
    expect(whole.bytes.equals(Buffer.concat(parts))).toBe(true);
    await call('DELETE', url('resumed'), { headers: world.alice.headers });
  });

  test('deleted files free their space as soon as it is needed', async () => {
    await world.sweep();
    expect((await put('old', 2_000 * KB)).status).toBe(200);
    expect((await call('DELETE', url('old'), { headers: world.alice.headers })).status).toBe(200);
    expect((await put('new', 2_000 * KB)).status).toBe(507);
    await until(async () => (await put('new', 2_000 * KB)).status === 200);
  });

  test('does not prevent a start', async () => {
    const filler = join(place, 'filler');
    await writeFile(filler, Buffer.alloc(8 * KB * KB)).catch((error: unknown) => {
      expect(error).toMatchObject({ code: 'ENOSPC' });
    });
    await new LocalBackend(place).check();
    await rm(filler);
  });
});
