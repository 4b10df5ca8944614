// Resumable uploads as black-box tests for any backend: with the protocol's client, and with raw requests.
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { Upload } from 'tus-js-client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sql } from '../../../src/postgres/sql.ts';
import { call, openRaw, until, type Answer } from './http.ts';
import { aBucket, createWorld, OWN, type World, type WorldOptions } from './world.ts';
import { scaled } from '../../support/run/scaled.ts';

/** `chunkBytes`: a store joins parts of 5 MB and more without passing their bytes through the server. */
export function resumableSuite(
  chunkBytes: number,
  provider: () => Promise<Pick<WorldOptions, 'provider'>>,
): void {
  let world: World;
  const endpoint = (): string => `${world.url}/upload/resumable`;

  beforeAll(async () => {
    world = await createWorld({
      ...(await provider()),
      buckets: [
        aBucket('priv', { rls: [OWN], maxSizeBytes: 20 * 1024 * 1024 }),
        aBucket('img', { rls: [OWN], maxSizeBytes: 100_000, types: ['image/*'] }),
      ],
    });
  });
  afterAll(() => world?.stop());

  const fresh = (): string => `t${randomUUID().slice(0, 8)}`;
  const metadata = (values: Record<string, string>): string =>
    Object.entries(values)
      .map(([key, value]) => `${key} ${Buffer.from(value).toString('base64')}`)
      .join(',');
  const tus = { 'tus-resumable': '1.0.0' };
  const chunkType = { 'content-type': 'application/offset+octet-stream' };
  const create = (
    name: string,
    headers: Record<string, string>,
    { bucket = 'priv', as = world.alice.headers, body = undefined as Buffer | undefined, path = '' } = {},
  ): Promise<Answer> =>
    call('POST', `${endpoint()}${path}`, {
      headers: {
        ...tus,
        ...as,
        'upload-metadata': metadata({ bucketName: bucket, objectName: name, contentType: 'text/plain' }),
        ...headers,
      },
      ...(body ? { body } : {}),
    });
  const patch = (
    location: string,
    offset: number,
    body: Buffer | string,
    as: Record<string, string> = world.alice.headers,
    more: Record<string, string> = {},
  ): Promise<Answer> =>
    call('PATCH', location, {
      headers: { ...tus, ...chunkType, ...as, 'upload-offset': String(offset), ...more },
      body,
    });
  const head = (location: string, as = world.alice.headers): Promise<Answer> =>
    call('HEAD', location, { headers: { ...tus, ...as } });
  const isLeased = async (name: string): Promise<boolean> => {
    const rows = await world.owner.query(
      sql`select from storage.resumable_uploads where name = ${name} and writer is not null`,
    );
    return rows.length > 0;
  };
  const download = (name: string, bucket = 'priv'): Promise<Answer> =>
    call('GET', `${world.url}/object/${bucket}/${name}`, { headers: world.alice.headers });
  const consistent = async (): Promise<void> => {
    await world.sweep();
    await world.storage.sweepOrphans({ minAgeMs: 0, force: true });
    const report = await world.storage.sweepOrphans({ minAgeMs: 0, dryRun: true });
    expect(report).toMatchObject({ orphans: 0, missing: [] });
  };

  function uploadWithClient(
    name: string,
    bytes: Buffer,
    more: { headers?: Record<string, string>; path?: string; stopAfter?: number; uploadUrl?: string } = {},
  ): Promise<{ url: string | null; stopped: boolean }> {
    return new Promise((resolve, reject) => {
      const upload = new Upload(bytes, {
        endpoint: `${endpoint()}${more.path ?? ''}`,
        uploadUrl: more.uploadUrl ?? null,
        chunkSize: chunkBytes,
        retryDelays: [0, 100],
        headers: more.headers ?? { ...world.alice.headers, 'x-upsert': 'true' },
        metadata: {
          bucketName: 'priv',
          objectName: name,
          contentType: 'application/x-test',
          cacheControl: '3600',
          metadata: JSON.stringify({ from: 'tus' }),
        },
        onError: reject,
        onSuccess: () => resolve({ url: upload.url, stopped: false }),
        onChunkComplete: () => {
          if (more.stopAfter === undefined || (more.stopAfter -= 1) > 0) return;
          void upload.abort().then(() => resolve({ url: upload.url, stopped: true }));
        },
      });
      upload.start();
    });
  }

  test('a large file in chunks', { timeout: scaled(180_000) }, async () => {
    const name = `${fresh()}/large file.bin`;
    const bytes = randomBytes(2 * chunkBytes + 100_000);
    const { url } = await uploadWithClient(name, bytes);
    const back = await download(encodeURI(name));
    expect(back.bytes.equals(bytes)).toBe(true);
    const info = await call('GET', `${world.url}/object/info/priv/${encodeURI(name)}`, {
      headers: world.alice.headers,
    });
    expect(info.json).toMatchObject({
      content_type: 'application/x-test',
      cache_control: 'max-age=3600',
      metadata: { from: 'tus' },
    });
    // A client that missed the last response sends HEAD and learns that the upload is complete.
    expect((await head(url ?? '')).headers.get('upload-offset')).toBe(String(bytes.length));
    await consistent();
  });

  test('an interrupted upload is continued', { timeout: scaled(180_000) }, async () => {
    const name = fresh();
    const bytes = randomBytes(2 * chunkBytes + 100_000);
    const first = await uploadWithClient(name, bytes, { stopAfter: 1 });
    expect(first.stopped).toBe(true);
    const asked = await head(first.url ?? '');
    expect(Number(asked.headers.get('upload-offset'))).toBeGreaterThanOrEqual(chunkBytes);
    expect(asked.headers.get('cache-control')).toBe('no-store');
    await uploadWithClient(name, bytes, { uploadUrl: first.url ?? '' });
    expect((await download(name)).bytes.equals(bytes)).toBe(true);
  });

  test('what arrived before the connection broke is kept', async () => {
    const name = fresh();
    const location = (await create(name, { 'upload-length': '300000' })).headers.get('location') ?? '';
    const bytes = randomBytes(300_000);
    let offset = 0;
    // Also when the connection broke before the server had read anything.
    await until(async () => {
      const request = await openRaw(world.url, 'PATCH', new URL(location).pathname, {
        ...tus,
        ...chunkType,
        ...world.alice.headers,
        'upload-offset': '0',
        'content-length': '300000',
      });
      request.socket.write(bytes.subarray(0, 200_000));
      await until(() => isLeased(name));
      request.socket.destroy();
      await until(async () => !(await isLeased(name)));
      offset = Number((await head(location)).headers.get('upload-offset'));
      return offset > 0;
    });
    expect((await patch(location, offset, bytes.subarray(offset))).status).toBe(204);
    expect((await download(name)).bytes.equals(bytes)).toBe(true);
  });

  test('a wrong offset is refused', async () => {
    const location = (await create(fresh(), { 'upload-length': '10' })).headers.get('location') ?? '';
    const answer = await patch(location, 5, 'x');
    expect([answer.status, answer.text]).toEqual([409, 'Upload-Offset conflict']);
    expect(answer.headers.get('content-type')).toContain('text/plain');
  });

  test('what exceeds the size limit is refused', async () => {
    const declared = await create(fresh(), { 'upload-length': String(21 * 1024 * 1024) });
    expect([declared.status, declared.text]).toEqual([413, 'Maximum size exceeded']);
    const deferred = (await create(fresh(), { 'upload-defer-length': '1' }, { bucket: 'img' })).status;
    expect(deferred).toBe(415);
    const image = metadata({ bucketName: 'img', objectName: fresh(), contentType: 'image/png' });
    const open = await create('', { 'upload-defer-length': '1', 'upload-metadata': image });
    expect(open.status).toBe(201);
    const location = open.headers.get('location') ?? '';
    expect((await patch(location, 0, Buffer.alloc(100_001))).status).toBe(413);
    expect((await patch(location, 0, 'x', undefined, { 'upload-length': '100001' })).status).toBe(413);
    const chunked = await openRaw(world.url, 'PATCH', new URL(location).pathname, {
      ...tus,
      ...chunkType,
      ...world.alice.headers,
      'upload-offset': '0',
      'transfer-encoding': 'chunked',
    });
    chunked.socket.write(`${(150_000).toString(16)}\r\n${'x'.repeat(150_000)}\r\n`);
    expect(await chunked.answered()).toBe(413);
    chunked.socket.destroy();
    const exact = (await create(fresh(), { 'upload-length': '4' })).headers.get('location') ?? '';
    expect((await patch(exact, 0, '12345')).status).toBe(413);
  });

  test('permission is needed to create an upload and for every part', async () => {
    expect((await create(fresh(), { 'upload-length': '1' }, { as: world.anonymous })).status).toBe(403);
    const location = (await create(fresh(), { 'upload-length': '1' })).headers.get('location') ?? '';
    // The URL alone gives no access: another user finds no upload there.
    for (const answer of [
      await patch(location, 0, 'x', world.bob.headers),
      await patch(location, 0, 'x', world.anonymous),
      await head(location, world.bob.headers),
      await call('DELETE', location, { headers: { ...tus, ...world.bob.headers } }),
    ]) {
      expect(answer.status).toBe(404);
    }
    // A right that ends in between ends the upload at its next part.
    const revoked = (await create(fresh(), { 'upload-length': '1' })).headers.get('location') ?? '';
    const policy = sql`alter policy svc_priv_0_insert on storage.objects with check`;
    await world.owner.query(sql`${policy} (false)`);
    expect((await patch(revoked, 0, 'x')).status).toBe(403);
    await world.owner.query(sql`${policy} (bucket_id = 'priv' and owner_id = auth.uid()::text)`);
    expect((await patch(revoked, 0, 'x')).status).toBe(204);
    const name = fresh();
    const later = (await create(name, { 'upload-length': '1' })).headers.get('location') ?? '';
    await world.owner.query(
      sql`insert into storage.objects (bucket_id, name, owner_id) values ('priv', ${name}, 'somebody')`,
    );
    expect((await patch(later, 0, 'x')).status).toBe(409);
    await world.owner.query(sql`delete from storage.objects where name = ${name}`);
  });

  test('credentials are refused as JSON, before the protocol', async () => {
    const answer = await create(
      fresh(),
      { 'upload-length': '1' },
      { as: { ...world.anonymous, authorization: 'Bearer a.b.c' } },
    );
    expect([answer.status, answer.json.code]).toEqual([400, 'AccessDenied']);
  });

  test('an upload with a signed link', async () => {
    const name = fresh();
    const { data } = await world.client(world.alice).storage.from('priv').createSignedUploadUrl(name);
    const headers = { 'x-signature': data?.token ?? '' };
    await uploadWithClient(name, Buffer.from('by link'), { headers, path: '/sign' });
    expect((await download(name)).text).toBe('by link');
    const second = await create(fresh(), { 'upload-length': '1', ...headers }, { as: {}, path: '/sign' });
    expect(second.json.code).toBe('InvalidSignature');
    const none = await create(fresh(), { 'upload-length': '1' }, { as: {}, path: '/sign' });
    expect(none.status).toBe(403);
  });

  test('an expired upload is gone', async () => {
    const name = fresh();
    const location = (await create(name, { 'upload-length': '10' })).headers.get('location') ?? '';
    await patch(location, 0, '12345');
    await world.owner.query(
      sql`update storage.resumable_uploads set expires_at = now() - interval '1 second' where name = ${name}`,
    );
    await world.owner.query(
      sql`update storage.pending_blobs set expires_at = now() - interval '1 second' where name = ${name}`,
    );
    expect((await head(location)).status).toBe(410);
    expect((await patch(location, 5, '67890')).status).toBe(410);
    await consistent();
  });

  test('creation with the first bytes, and an empty file', async () => {
    const name = fresh();
    const whole = await create(name, { 'upload-length': '5', ...chunkType }, { body: Buffer.from('whole') });
    expect([whole.status, whole.headers.get('upload-offset')]).toEqual([201, '5']);
    expect((await download(name)).text).toBe('whole');
    const empty = fresh();
    expect((await create(empty, { 'upload-length': '0' })).status).toBe(201);
    expect((await download(empty)).bytes).toHaveLength(0);
  });

  test('a deferred length', async () => {
    const name = fresh();
    const location = (await create(name, { 'upload-defer-length': '1' })).headers.get('location') ?? '';
    expect((await head(location)).headers.get('upload-defer-length')).toBe('1');
    expect((await patch(location, 0, 'abc')).headers.get('upload-offset')).toBe('3');
    const last = await patch(location, 3, 'de', undefined, { 'upload-length': '5' });
    expect([last.status, last.headers.get('tus-complete')]).toEqual([204, '1']);
    expect((await download(name)).text).toBe('abcde');
  });

  test('a taken name is refused without upsert', async () => {
    const name = fresh();
    await create(name, { 'upload-length': '3', ...chunkType }, { body: Buffer.from('one') });
    expect((await create(name, { 'upload-length': '3' })).status).toBe(409);
    const again = await create(
      name,
      { 'upload-length': '3', 'x-upsert': 'true', ...chunkType },
      { body: Buffer.from('two') },
    );
    expect(again.status).toBe(201);
    expect((await download(name)).text).toBe('two');
    await consistent();
  });

  test('content that is not of the declared type is refused', async () => {
    const page = Buffer.from('<!doctype html><script>alert(1)</script>');
    const image = metadata({ bucketName: 'img', objectName: fresh(), contentType: 'image/png' });
    const answer = await create(
      '',
      { 'upload-length': String(page.length), 'upload-metadata': image, ...chunkType },
      { body: page },
    );
    expect(answer.status).toBe(415);
    // Also in parts that are too small to detect the type.
    const open = await create('', { 'upload-length': String(page.length), 'upload-metadata': image });
    const location = open.headers.get('location') ?? '';
    expect((await patch(location, 0, page.subarray(0, 1))).status).toBe(204);
    expect((await patch(location, 1, page.subarray(1))).status).toBe(415);
    expect((await head(location)).status).toBe(404);
    await consistent();
  });

  test('DELETE ends an upload', async () => {
    const location = (await create(fresh(), { 'upload-length': '10' })).headers.get('location') ?? '';
    await patch(location, 0, '12345');
    expect((await call('DELETE', location, { headers: { ...tus, ...world.alice.headers } })).status).toBe(
      204,
    );
    expect((await head(location)).status).toBe(404);
    const done = await create(fresh(), { 'upload-length': '1', ...chunkType }, { body: Buffer.from('x') });
    const finished = done.headers.get('location') ?? '';
    expect((await call('DELETE', finished, { headers: { ...tus, ...world.alice.headers } })).status).toBe(
      400,
    );
    await consistent();
  });

  test('a second writer makes the first one stop', async () => {
    const name = fresh();
    const bytes = randomBytes(200_000);
    const location = (await create(name, { 'upload-length': '200000' })).headers.get('location') ?? '';
    const slow = await openRaw(world.url, 'PATCH', new URL(location).pathname, {
      ...tus,
      ...chunkType,
      ...world.alice.headers,
      'upload-offset': '0',
      'content-length': '200000',
    });
    slow.socket.write(bytes.subarray(0, 100_000));
    await until(() => isLeased(name));
    // The client has lost its connection and the server has not noticed yet: the resumed request must win.
    let offset = 0;
    let answer: Answer | undefined;
    await until(async () => {
      offset = Number((await head(location)).headers.get('upload-offset'));
      answer = await patch(location, offset, bytes.subarray(offset));
      return answer.status === 204;
    });
    expect((await download(name)).bytes.equals(bytes)).toBe(true);
    slow.socket.destroy();
  });

  test('HEAD completes an interrupted commit', async () => {
    const name = fresh();
    const location = (await create(name, { 'upload-length': '6' })).headers.get('location') ?? '';
    await patch(location, 0, 'abc');
    // State of a process that died between recording the last part and committing the object.
    const md5 = createHash('md5').update('def').digest('hex');
    const [row] = await world.owner.query<{ version: string }>(
      sql`select version from storage.resumable_uploads where name = ${name}`,
    );
    const part = await world.backend().append(row?.version ?? '', await readParts(name), chunk('def'), 3);
    await world.owner.query(sql`
      update storage.resumable_uploads set received = 6, parts = parts || ${JSON.stringify([{ ...part, md5 }])}::jsonb
      where name = ${name}`);
    expect((await download(name)).status).toBe(400);
    expect((await head(location)).headers.get('upload-offset')).toBe('6');
    expect((await download(name)).text).toBe('abcdef');
  });
  async function readParts(name: string): Promise<Array<{ id: string; bytes: number }>> {
    const [row] = await world.owner.query<{ parts: Array<{ id: string; bytes: number }> }>(
      sql`select parts from storage.resumable_uploads where name = ${name}`,
    );
    return row?.parts ?? [];
  }

  test('validates requests as the protocol requires', async () => {
    const options = await call('OPTIONS', endpoint());
    expect([options.status, options.headers.get('tus-version')]).toEqual([204, '1.0.0']);
    expect(options.headers.get('tus-extension')).toContain('creation-with-upload');
    expect(options.headers.get('tus-max-size')).toBe(String(20 * 1024 * 1024));
    const plain = await call('POST', endpoint(), {
      headers: { ...world.alice.headers, 'upload-length': '1' },
    });
    expect([plain.status, plain.text]).toEqual([412, 'Tus-Resumable Required']);
    expect((await create(fresh(), { 'upload-length': '1', 'upload-metadata': 'bucketName !!' })).status).toBe(
      400,
    );
    expect((await create(fresh(), {})).status).toBe(400);
    expect((await create(fresh(), { 'upload-length': '-1' })).status).toBe(400);
    expect((await create('../up', { 'upload-length': '1' })).status).toBe(400);
    expect((await create('a', { 'upload-length': '1' }, { bucket: 'nope' })).status).toBe(404);
    const location = (await create(fresh(), { 'upload-length': '1' })).headers.get('location') ?? '';
    expect(
      (
        await call('PATCH', location, {
          headers: { ...tus, ...world.alice.headers, ...chunkType },
          body: 'x',
        })
      ).status,
    ).toBe(403);
    const typed = { ...tus, ...world.alice.headers, 'upload-offset': '0', 'content-type': 'text/plain' };
    expect((await call('PATCH', location, { headers: typed, body: 'x' })).status).toBe(403);
    expect((await head(`${endpoint()}/bm90aGluZw`)).status).toBe(404);
  });
}

async function* chunk(text: string): AsyncIterable<Buffer> {
  yield Buffer.from(text);
}
