// Behaviour that clients of this API rely on, as black-box tests for any backend.
import { randomBytes, randomUUID } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { createClient as createOldClient } from 'supabase-js-2.107';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { raw, sql } from '../../../src/postgres/sql.ts';
import { call, openRaw, until, type Answer, type Call, type Wire } from './http.ts';
import { aBucket, aPolicy, createWorld, OWN, type World, type WorldOptions } from './world.ts';

const EVERYTHING = ['select', 'insert', 'update', 'delete'] as const;
const DISPLAY = 'https://app.example';

export function paritySuite(provider: () => Promise<Pick<WorldOptions, 'provider'>>): void {
  let world: World;
  let A: Record<string, string>;
  let B: Record<string, string>;
  let S: Record<string, string>;
  let P: Record<string, string>;
  const api = (method: string, path: string, options: Call = {}): Promise<Answer> =>
    call(method, `${world.url}${path}`, options);
  const put = async (
    path: string,
    body: string | Buffer = 'hi',
    headers: Record<string, string> = {},
    as = A,
  ) => {
    const answer = await api('POST', `/object/${path}`, {
      headers: { 'content-type': 'text/plain', ...as, ...headers },
      body,
    });
    expect(answer.text, path).toContain('Key');
    return answer.json;
  };
  const info = async (path: string, as = A): Promise<Wire> =>
    (await api('GET', `/object/info/${path}`, { headers: as })).json;
  const refused = (answer: Answer): [number, string, string] => [
    answer.status,
    answer.json?.statusCode,
    answer.json?.code,
  ];
  const fresh = (): string => `d${randomUUID().slice(0, 8)}`;
  /** Checks that every stored blob belongs to an object, and every object has its blob. */
  const consistent = async (): Promise<void> => {
    await world.sweep();
    const report = await world.storage.sweepOrphans({ minAgeMs: 0, dryRun: true });
    const [row] = await world.owner.query<{ objects: number }>(
      sql`select count(*)::int as objects from storage.objects`,
    );
    expect(report).toMatchObject({ blobs: row?.objects, orphans: 0, missing: [] });
  };

  beforeAll(async () => {
    world = await createWorld({
      ...(await provider()),
      corsOrigins: [DISPLAY],
      buckets: [
        aBucket('pub', { public: true, rls: [OWN] }),
        aBucket('priv', {
          rls: [
            OWN,
            // A restrictive policy, which must not affect the other buckets.
            aPolicy({ operations: ['select'], type: 'restrictive', using: "name not like 'hidden%'" }),
          ],
        }),
        aBucket('img', { maxSizeBytes: 1000, types: ['image/*'], rls: [OWN] }),
        aBucket('ro', { rls: [aPolicy({ operations: ['select'], using: 'true' })] }),
        aBucket('typed', {
          rls: [
            aPolicy({ operations: ['insert'], withCheck: "metadata->>'mimetype' like 'image/%'" }),
            aPolicy({ operations: ['select'], using: 'true' }),
          ],
        }),
        aBucket('shared', {
          rls: [aPolicy({ operations: [...EVERYTHING], check: 'auth.is_authenticated()' })],
        }),
      ],
    });
    A = world.alice.headers;
    B = world.bob.headers;
    S = world.service;
    P = world.anonymous;
  });
  afterAll(() => world?.stop());

  describe('credentials and uploads', () => {
    test('raw upload', async () => {
      const name = fresh();
      const answer = await api('POST', `/object/priv/${name}`, {
        headers: { ...A, 'content-type': 'text/plain' },
        body: 'hi',
      });
      expect(answer.status).toBe(200);
      expect(answer.json).toEqual({ Id: expect.stringMatching(/^[0-9a-f-]{36}$/), Key: `priv/${name}` });
    });
    test('an API key as the bearer token', async () => {
      const name = fresh();
      await put(`pub/${name}`);
      const answer = await api('GET', `/object/info/pub/${name}`, {
        headers: { authorization: `Bearer ${world.keys.publishable}` },
      });
      expect(answer.status).toBe(200);
    });
    test('the secret key bypasses policies', async () => {
      await put(`ro/${fresh()}`, 'x', {}, S);
    });
    test('the secret key in apikey alone', async () => {
      await put(`ro/${fresh()}`, 'x', {}, { apikey: world.keys.secret });
    });
    test('an upload to a taken name is refused', async () => {
      const name = fresh();
      await put(`priv/${name}`);
      const again = await api('POST', `/object/priv/${name}`, { headers: A, body: 'again' });
      expect(again.status).toBe(400);
      expect(again.json).toMatchObject({
        statusCode: '409',
        error: 'Duplicate',
        message: 'The resource already exists',
      });
    });
    test('upsert keeps the id', async () => {
      const name = fresh();
      const first = await put(`priv/${name}`);
      const second = await put(`priv/${name}`, 'new', { 'x-upsert': 'true' });
      expect(second.Id).toBe(first.Id);
      expect((await api('GET', `/object/priv/${name}`, { headers: A })).text).toBe('new');
    });
    test('x-upsert replaces only with the value true', async () => {
      const name = fresh();
      await put(`priv/${name}`);
      const again = await api('POST', `/object/priv/${name}`, {
        headers: { ...A, 'x-upsert': 'TRUE' },
        body: 'x',
      });
      expect(again.json.statusCode).toBe('409');
    });
    test('PUT creates', async () => {
      const answer = await api('PUT', `/object/priv/${fresh()}`, { headers: A, body: 'x' });
      expect(answer.status).toBe(200);
    });
    test('a JSON file arrives as bytes', async () => {
      const name = fresh();
      await put(`priv/${name}`, '{"a":  1}', { 'content-type': 'application/json' });
      const back = await api('GET', `/object/priv/${name}`, { headers: A });
      expect([back.text, back.headers.get('content-type')]).toEqual(['{"a":  1}', 'application/json']);
    });
    test('the client uploads a Blob', async () => {
      const name = fresh();
      const bucket = world.client(world.alice).storage.from('priv');
      const { error } = await bucket.upload(name, new Blob(['x'], { type: 'image/png' }));
      expect(error).toBeNull();
      expect((await info(`priv/${name}`)).content_type).toBe('image/png');
    });
    const form = (
      parts: ReadonlyArray<[head: string, value: string]>,
    ): { headers: Record<string, string>; body: string } => {
      const fields = parts.map(
        ([head, value]) => `--cut\r\nContent-Disposition: form-data; ${head}\r\n\r\n${value}\r\n`,
      );
      return {
        headers: { ...A, 'content-type': 'multipart/form-data; boundary=cut' },
        body: `${fields.join('')}--cut--\r\n`,
      };
    };
    test('a file part without a field name', async () => {
      const name = fresh();
      const answer = await api(
        'POST',
        `/object/priv/${name}`,
        form([['name=""; filename="blob"', 'content']]),
      );
      expect(answer.status).toBe(200);
      expect((await api('GET', `/object/priv/${name}`, { headers: A })).text).toBe('content');
    });
    test('fields after the file', async () => {
      const name = fresh();
      const parts: Array<[string, string]> = [
        ['name="file"; filename="x"', 'content'],
        ['name="cacheControl"', '60'],
        ['name="metadata"', '{"late":true}'],
      ];
      await api('POST', `/object/priv/${name}`, form(parts));
      expect(await info(`priv/${name}`)).toMatchObject({
        cache_control: 'max-age=60',
        metadata: { late: true },
      });
    });
    test('a late content type is checked too', async () => {
      const answer = await api('POST', `/object/img/${fresh()}`, {
        ...form([]),
        body:
          '--cut\r\nContent-Disposition: form-data; name=""; filename="x"\r\n' +
          'Content-Type: image/png\r\n\r\nx\r\n--cut\r\n' +
          'Content-Disposition: form-data; name="contentType"\r\n\r\ntext/html\r\n--cut--\r\n',
      });
      expect(answer.json.statusCode).toBe('415');
    });
    test('a form without a file', async () => {
      const answer = await api('POST', `/object/priv/${fresh()}`, form([['name="cacheControl"', '60']]));
      expect(refused(answer)).toEqual([400, '400', 'InvalidRequest']);
    });
    test('cache control is kept as sent', async () => {
      const name = fresh();
      await put(`pub/${name}`, 'x', { 'cache-control': 'max-age=7200' });
      const head = await api('HEAD', `/object/public/pub/${name}`);
      expect(head.headers.get('cache-control')).toBe('max-age=7200');
    });
    test('cache control by default', async () => {
      const name = fresh();
      await put(`pub/${name}`);
      expect((await info(`pub/${name}`)).cache_control).toBe('no-cache');
    });
    test('user metadata in a header', async () => {
      const name = fresh();
      await put(`priv/${name}`, 'x', { 'x-metadata': Buffer.from('{"k":"é"}').toString('base64') });
      expect((await info(`priv/${name}`)).metadata).toEqual({ k: 'é' });
    });
    test('unreadable user metadata is ignored', async () => {
      const name = fresh();
      await put(`priv/${name}`, 'x', { 'x-metadata': '%%%' });
      expect((await info(`priv/${name}`)).metadata).toEqual({});
    });
    test('a stream without a length', async () => {
      const name = fresh();
      const body = new ReadableStream({
        start(controller) {
          controller.enqueue(new TextEncoder().encode('str'));
          controller.enqueue(new TextEncoder().encode('eam'));
          controller.close();
        },
      });
      const { error } = await world
        .client(world.alice)
        .storage.from('priv')
        .upload(name, body, { duplex: 'half' });
      expect(error).toBeNull();
      expect((await api('GET', `/object/priv/${name}`, { headers: A })).text).toBe('stream');
    });
  });

  describe('limits and types', () => {
    const image = { 'content-type': 'image/png' };
    test('a chunked body over the size limit is refused', async () => {
      const name = fresh();
      const request = await openRaw(world.url, 'POST', `/storage/v1/object/img/${name}`, {
        ...A,
        ...image,
        'transfer-encoding': 'chunked',
      });
      request.socket.write(`800\r\n${'x'.repeat(2048)}\r\n0\r\n\r\n`);
      expect(await request.answered()).toBe(400);
      await until(() => request.received().includes('}'));
      expect(request.received()).toContain('"statusCode":"413"');
      request.socket.destroy();
      expect((await info(`img/${name}`)).code).toBe('NoSuchKey');
      await consistent();
    });
    test('a declared length over the size limit is refused', async () => {
      const request = await openRaw(world.url, 'POST', `/storage/v1/object/img/${fresh()}`, {
        ...A,
        ...image,
        'content-length': '2048',
      });
      expect(await request.answered()).toBe(400);
      await until(() => request.received().includes('}'));
      expect(request.received()).toContain('"statusCode":"413"');
      request.socket.destroy();
    });
    test('a form over the size limit is refused', async () => {
      const bucket = world.client(world.alice).storage.from('img');
      const { error } = await bucket.upload(fresh(), new Blob(['x'.repeat(2048)], { type: 'image/png' }));
      expect(error).toMatchObject({
        statusCode: '413',
        message: 'The object exceeded the maximum allowed size',
      });
      await consistent();
    });
    test('a body of exactly the size limit is accepted', async () => {
      await put(`img/${fresh()}`, 'x'.repeat(1000), image);
    });
    test('a type that the bucket does not list is refused', async () => {
      const answer = await api('POST', `/object/img/${fresh()}`, {
        headers: { ...A, 'content-type': 'text/plain' },
        body: 'x',
      });
      expect(refused(answer)).toEqual([400, '415', 'InvalidMimeType']);
      expect(answer.json.message).toBe('mime type text/plain is not supported');
    });
    test('a listed wildcard allows its types', async () => {
      await put(`img/${fresh()}`, 'x', image);
    });
    test('parameters of a type are ignored when it is compared', async () => {
      await put(`img/${fresh()}`, 'x', { 'content-type': 'image/png; x=1' });
    });
    test('a malformed type is refused', async () => {
      const answer = await api('POST', `/object/img/${fresh()}`, {
        headers: { ...A, 'content-type': 'nonsense' },
        body: 'x',
      });
      expect(answer.json).toMatchObject({ statusCode: '415', message: 'Invalid Content-Type header' });
    });
    test('placeholders of empty folders', async () => {
      const headers = { ...A, 'content-type': 'text/plain' };
      const name = `img/${fresh()}/.emptyFolderPlaceholder`;
      expect((await api('POST', `/object/${name}`, { headers, body: '' })).status).toBe(200);
      const full = await api('POST', `/object/img/${fresh()}/.emptyFolderPlaceholder`, {
        headers,
        body: 'x',
      });
      expect(full.json.statusCode).toBe('413');
    });
    test('content that is not what it was declared to be', async () => {
      const page = '<!DOCTYPE html><script>alert(1)</script>';
      const answer = await api('POST', `/object/img/${fresh()}`, { headers: { ...A, ...image }, body: page });
      expect(refused(answer)).toEqual([400, '415', 'InvalidMimeType']);
      await consistent();
    });
  });

  describe('names', () => {
    test('a name with a letter outside ASCII is refused', async () => {
      const answer = await api('POST', '/object/priv/%C3%A9.txt', { headers: A, body: 'x' });
      expect(refused(answer)).toEqual([400, '400', 'InvalidKey']);
      expect(answer.json.message).toBe('Invalid key: é.txt');
    });
    test('a name with a dot segment is refused', async () => {
      const request = await openRaw(world.url, 'POST', '/storage/v1/object/priv/a/%2E%2E/b', {
        ...A,
        'content-length': '1',
      });
      request.socket.write('x');
      expect(await request.answered()).toBe(400);
      await until(() => request.received().includes('}'));
      expect(request.received()).toContain('InvalidKey');
      request.socket.destroy();
    });
    test('a plus in a name stays a plus', async () => {
      const folder = fresh();
      await put(`priv/${folder}/a+b.txt`);
      const { data } = await world.client(world.alice).storage.from('priv').list(folder);
      expect(data?.map((entry) => entry.name)).toEqual(['a+b.txt']);
    });
    test('a name with a space', async () => {
      const bucket = world.client(world.alice).storage.from('priv');
      const name = `${fresh()}/x y.txt`;
      await bucket.upload(name, 'spaced');
      expect(await (await bucket.download(name)).data?.text()).toBe('spaced');
    });
    test('an upload to an unknown bucket is refused', async () => {
      const answer = await api('POST', '/object/nope/a', { headers: A, body: 'x' });
      expect(refused(answer)).toEqual([400, '404', 'NoSuchBucket']);
    });
  });

  describe('policies before bytes', () => {
    test('an upload that no policy allows is refused', async () => {
      const answer = await api('POST', `/object/priv/${fresh()}`, { headers: P, body: 'x' });
      expect(refused(answer)).toEqual([400, '403', 'AccessDenied']);
      expect(answer.json.message).toBe('new row violates row-level security policy');
    });
    test('the body of a refused upload is not read', async () => {
      const request = await openRaw(world.url, 'POST', `/storage/v1/object/priv/${fresh()}`, {
        ...P,
        'content-length': String(40 * 1024 * 1024),
      });
      const chunk = Buffer.alloc(64 * 1024);
      let sent = 0;
      while (sent < 40 * 1024 * 1024 && !request.socket.destroyed && !request.received().includes('}')) {
        if (!request.socket.write(chunk)) await new Promise((resolve) => setTimeout(resolve, 1));
        sent = request.socket.bytesWritten - request.socket.writableLength;
      }
      expect(request.received()).toContain('"statusCode":"403"');
      expect(sent).toBeLessThan(20 * 1024 * 1024);
      request.socket.destroy();
      await consistent();
    });
    test('a policy can check the declared type', async () => {
      const refusal = await api('POST', `/object/typed/${fresh()}`, {
        headers: { ...A, 'content-type': 'text/plain' },
        body: 'x',
      });
      expect(refusal.json.statusCode).toBe('403');
      await put(`typed/${fresh()}`, 'x', { 'content-type': 'image/png' });
    });
    test('the uploader becomes the owner', async () => {
      const name = fresh();
      await put(`priv/${name}`);
      const [row] = await world.owner.query<{ owner: string; owner_id: string }>(
        sql`select owner, owner_id from storage.objects where name = ${name}`,
      );
      expect(row).toEqual({ owner: world.alice.id, owner_id: world.alice.id });
    });
    test('of two uploads racing for a name one wins', async () => {
      const name = fresh();
      const one = (): Promise<Answer> =>
        api('POST', `/object/priv/${name}`, { headers: A, body: randomBytes(2000) });
      const answers = await Promise.all([one(), one(), one(), one()]);
      expect(answers.filter((answer) => answer.status === 200)).toHaveLength(1);
      expect(answers.filter((answer) => answer.json.statusCode === '409')).toHaveLength(3);
      await consistent();
    });
    test('a client that disconnects in the middle leaves nothing', async () => {
      const name = fresh();
      const request = await openRaw(world.url, 'POST', `/storage/v1/object/priv/${name}`, {
        ...A,
        'content-length': '1000000',
      });
      request.socket.write(Buffer.alloc(300_000));
      await until(async () => (await world.owner.query(raw('select from storage.pending_blobs'))).length > 0);
      request.socket.destroy();
      await until(
        async () => (await world.owner.query(raw('select from storage.pending_blobs'))).length === 0,
      );
      expect((await info(`priv/${name}`)).code).toBe('NoSuchKey');
      await consistent();
    });
    test('a content encoding describes the bytes', async () => {
      const name = fresh();
      const packed = gzipSync('hello');
      await put(`priv/${name}`, packed, { 'content-encoding': 'gzip' });
      const back = await api('GET', `/object/priv/${name}`, { headers: A });
      expect([back.headers.get('content-encoding'), back.text]).toEqual(['gzip', 'hello']);
      expect((await info(`priv/${name}`)).size).toBe(packed.length);
    });
    test('x-robots-tag is stored and checked', async () => {
      const name = fresh();
      await put(`pub/${name}`, 'x', { 'x-robots-tag': 'all' });
      expect((await api('GET', `/object/public/pub/${name}`)).headers.get('x-robots-tag')).toBe('all');
      const second = fresh();
      await put(`pub/${second}`);
      expect((await api('GET', `/object/public/pub/${second}`)).headers.get('x-robots-tag')).toBe('none');
      const bad = await api('POST', `/object/pub/${fresh()}`, {
        headers: { ...A, 'x-robots-tag': 'garbage!' },
        body: 'x',
      });
      expect(bad.json).toMatchObject({ statusCode: '400', error: 'invalid_x_robots_tag' });
    });
  });

  describe('downloads', () => {
    let open: string;
    let closed: string;
    beforeAll(async () => {
      open = `pub/${fresh()}.png`;
      closed = `priv/${fresh()}.txt`;
      await put(open, '0123456789', { 'content-type': 'image/png' });
      await put(closed, '0123456789');
    });
    test('a public object by its URL', async () => {
      const answer = await api('GET', `/object/public/${open}`);
      expect(answer.status).toBe(200);
      expect(answer.headers.get('etag')).toBe('"781e5e245d69b566979b86e28d23f2c7"');
      expect(answer.headers.get('accept-ranges')).toBe('bytes');
      expect(answer.headers.get('content-length')).toBe('10');
    });
    test('the public URL of a private bucket', async () => {
      expect(refused(await api('GET', `/object/public/${closed}`))).toEqual([400, '404', 'NoSuchBucket']);
      expect(refused(await api('GET', `/object/${closed}`))).toEqual([400, '404', 'NoSuchBucket']);
    });
    test('a private object for its owner', async () => {
      expect((await api('GET', `/object/authenticated/${closed}`, { headers: A })).status).toBe(200);
      expect((await api('GET', `/object/authenticated/${closed}`)).status).toBe(401);
    });
    test('a user’s token alone', async () => {
      const alone = { authorization: A['authorization'] ?? '' };
      expect((await api('GET', `/object/authenticated/${closed}`, { headers: alone })).text).toBe(
        '0123456789',
      );
      expect((await api('GET', `/object/${closed}`, { headers: alone })).status).toBe(200);
      const name = `${closed}-alone`;
      expect((await api('POST', `/object/${name}`, { headers: alone, body: 'x' })).status).toBe(200);
      expect((await api('DELETE', `/object/${name}`, { headers: alone })).status).toBe(200);
      // An expired token is reported; an expired key is still a key.
      expect(refused(await api('GET', `/object/authenticated/${closed}`, { headers: garbage }))).toEqual([
        400,
        '403',
        'AccessDenied',
      ]);
      for (const headers of [
        { authorization: 'Bearer nothing' },
        { ...alone, apikey: 'svc_publishable_unknown' },
        { apikey: alone.authorization.slice('Bearer '.length) },
      ]) {
        expect((await api('GET', `/object/authenticated/${closed}`, { headers })).status).toBe(401);
      }
    });
    test('a private object for another user is missing', async () => {
      expect(refused(await api('GET', `/object/authenticated/${closed}`, { headers: B }))).toEqual([
        400,
        '404',
        'NoSuchKey',
      ]);
    });
    test('the URL without public or authenticated', async () => {
      expect((await api('GET', `/object/${closed}`, { headers: A })).text).toBe('0123456789');
    });
    const garbage = { authorization: 'Bearer aaa.bbb.ccc' };
    test('an invalid token does not matter for a public object', async () => {
      expect((await api('GET', `/object/${open}`, { headers: { ...P, ...garbage } })).status).toBe(200);
    });
    test('an invalid token is refused where credentials are required', async () => {
      const answer = await api('GET', `/object/authenticated/${open}`, { headers: { ...P, ...garbage } });
      expect(refused(answer)).toEqual([400, '403', 'AccessDenied']);
    });
    test('a byte range', async () => {
      const answer = await api('GET', `/object/public/${open}`, { headers: { range: 'bytes=0-1' } });
      expect([answer.status, answer.text, answer.headers.get('content-range')]).toEqual([
        206,
        '01',
        'bytes 0-1/10',
      ]);
    });
    test('a suffix range', async () => {
      expect((await api('GET', `/object/public/${open}`, { headers: { range: 'bytes=-3' } })).text).toBe(
        '789',
      );
    });
    test('a range beyond the end is refused', async () => {
      const answer = await api('GET', `/object/public/${open}`, { headers: { range: 'bytes=999999-' } });
      expect([answer.status, answer.json.code, answer.headers.get('content-range')]).toEqual([
        416,
        'InvalidRange',
        'bytes */10',
      ]);
    });
    test('If-None-Match', async () => {
      const etag = (await api('GET', `/object/public/${open}`)).headers.get('etag') ?? '';
      const answer = await api('GET', `/object/public/${open}`, { headers: { 'if-none-match': etag } });
      expect([answer.status, answer.text, answer.headers.get('etag')]).toEqual([304, '', etag]);
    });
    test('If-None-Match with a list and a weak tag', async () => {
      const etag = (await api('GET', `/object/public/${open}`)).headers.get('etag') ?? '';
      const answer = await api('GET', `/object/public/${open}`, {
        headers: { 'if-none-match': `"x", W/${etag}` },
      });
      expect(answer.status).toBe(304);
    });
    test('If-Modified-Since', async () => {
      const modified = (await api('GET', `/object/public/${open}`)).headers.get('last-modified') ?? '';
      const answer = await api('GET', `/object/public/${open}`, {
        headers: { 'if-modified-since': modified },
      });
      expect(answer.status).toBe(304);
    });
    test('If-Match and If-Range', async () => {
      const second = await api('GET', `/object/public/${open}`, { headers: { 'if-match': '"other"' } });
      expect(second.status).toBe(412);
      const stale = await api('GET', `/object/public/${open}`, {
        headers: { range: 'bytes=0-1', 'if-range': '"other"' },
      });
      expect([stale.status, stale.text]).toEqual([200, '0123456789']);
    });
    test('HEAD sends the headers only', async () => {
      const answer = await api('HEAD', `/object/${closed}`, { headers: A });
      expect([answer.status, answer.headers.get('content-length')]).toEqual([200, '10']);
    });
    test('HEAD of a missing object', async () => {
      const answer = await api('HEAD', '/object/priv/none', { headers: A });
      expect([answer.status, answer.text]).toEqual([400, '']);
    });
    test('exists() of the oldest client', async () => {
      const old = createOldClient(world.origin, world.keys.publishable, {
        global: { headers: { authorization: `Bearer ${world.alice.token}` } },
      });
      expect((await old.storage.from('priv').exists('none')).data).toBe(false);
      expect((await old.storage.from('priv').exists(closed.slice(5))).data).toBe(true);
    });
    test('exists() of the newest client', async () => {
      const bucket = world.client(world.alice).storage.from('priv');
      expect((await bucket.exists('none')).data).toBe(false);
      expect((await bucket.exists(closed.slice(5))).data).toBe(true);
    });
    test('info of an object', async () => {
      const found = await info(closed);
      expect(found).toMatchObject({
        name: closed.slice(5),
        bucket_id: 'priv',
        size: 10,
        content_type: 'text/plain',
        metadata: {},
      });
      for (const key of ['id', 'version', 'cache_control', 'etag', 'last_modified', 'created_at'])
        expect(found).toHaveProperty(key);
      expect(found).not.toHaveProperty('updated_at');
      expect(found.created_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    });
    test('?download', async () => {
      const answer = await api('GET', `/object/public/${open}?download`);
      expect(answer.headers.get('content-disposition')).toBe('attachment;');
    });
    test('?download=name', async () => {
      const answer = await api('GET', `/object/public/${open}?download=${encodeURIComponent('é.txt')}`);
      expect(answer.headers.get('content-disposition')).toBe(
        "attachment; filename=%C3%A9.txt; filename*=UTF-8''%C3%A9.txt",
      );
    });
    test('a page is served as text', async () => {
      const name = `pub/${fresh()}.html`;
      await put(name, '<script>alert(1)</script>', { 'content-type': 'text/html; charset=utf-8' });
      const answer = await api('GET', `/object/public/${name}`);
      expect(answer.headers.get('content-type')).toBe('text/plain');
      expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
    });
    test('SVG is served in a sandbox', async () => {
      const name = `pub/${fresh()}.svg`;
      await put(name, '<svg xmlns="http://www.w3.org/2000/svg"/>', { 'content-type': 'image/svg+xml' });
      expect((await api('GET', `/object/public/${name}`)).headers.get('content-security-policy')).toContain(
        'sandbox',
      );
    });
    test('versionId names the current version or nothing', async () => {
      const { version } = await info(open);
      expect((await api('GET', `/object/public/${open}?versionId=${version}`)).status).toBe(200);
      expect((await api('GET', `/object/public/${open}?versionId=${randomUUID()}`)).json.code).toBe(
        'NoSuchKey',
      );
    });
  });

  describe('lists', () => {
    let folder: string;
    const list = async (body: object, as = A): Promise<Wire> =>
      (await api('POST', '/object/list/priv', { headers: as, body })).json;
    const seed = async (names: readonly string[]): Promise<string> => {
      const under = fresh();
      await world.owner.query(sql`
        insert into storage.objects (bucket_id, name, owner_id, metadata, created_at)
        select 'priv', ${under} || '/' || name, ${world.alice.id}, '{"size":0}', now() + make_interval(secs => n)
        from unnest(${names}::text[]) with ordinality as t (name, n)`);
      return under;
    };
    const unseed = (under: string): Promise<unknown> =>
      world.owner.query(sql`delete from storage.objects where starts_with(name, ${`${under}/`})`);
    beforeAll(async () => {
      folder = await seed([
        'a/b/c/file.png',
        'd/one.txt',
        'd/two.txt',
        'fine.txt',
        'first.txt',
        'other.txt',
        'Zed.txt',
        'x_y.txt',
      ]);
    });
    afterAll(() => unseed(folder));

    test('a list has files and folders', async () => {
      const entries = await list({ prefix: folder });
      expect(entries.map((entry) => entry.name)).toEqual([
        'a',
        'd',
        'fine.txt',
        'first.txt',
        'other.txt',
        'x_y.txt',
        'Zed.txt',
      ]);
      expect(entries[0]).toEqual({
        name: 'a',
        id: null,
        updated_at: null,
        created_at: null,
        last_accessed_at: null,
        metadata: null,
      });
      expect(entries[2]?.id).toMatch(/^[0-9a-f-]{36}$/);
      expect(Object.keys(entries[2] ?? {})).toEqual([
        'name',
        'id',
        'updated_at',
        'created_at',
        'last_accessed_at',
        'metadata',
      ]);
    });
    test('a folder with and without its slash', async () => {
      expect(await list({ prefix: `${folder}/d` })).toEqual(await list({ prefix: `${folder}/d/` }));
      expect(await list({ prefix: `${folder}/d` })).toHaveLength(2);
    });
    test('search matches the beginning of a name', async () => {
      const names = (await list({ prefix: folder, search: 'fi' })).map((entry) => entry.name);
      expect(names).toEqual(['fine.txt', 'first.txt']);
    });
    test('search with a slash', async () => {
      const names = (await list({ prefix: `${folder}/a`, search: 'b/c' })).map((entry) => entry.name);
      expect(names).toEqual(['b/c']);
      const deep = (await list({ prefix: `${folder}/a`, search: 'b/c/' })).map((entry) => entry.name);
      expect(deep).toEqual(['b/c/file.png']);
    });
    test.each(['%', '_', '\\', 'x%', 'x\\_y', '*', "'", '%25'])(
      '%s is an ordinary character',
      async (search) => {
        expect(await list({ prefix: folder, search })).toEqual([]);
      },
    );
    test('a literal underscore is found', async () => {
      expect((await list({ prefix: folder, search: 'x_' })).map((entry) => entry.name)).toEqual(['x_y.txt']);
    });
    test('limit and offset skip no entries', async () => {
      const names = [
        ...Array.from({ length: 100 }, (_, n) => `f${String(n + 1).padStart(3, '0')}`),
        'f100.txt',
        'f100-b',
      ];
      const under = await seed(names);
      const page = await list({ prefix: under, limit: 30, offset: 95 });
      expect(page.map((entry) => entry.name)).toEqual([
        'f096',
        'f097',
        'f098',
        'f099',
        'f100',
        'f100-b',
        'f100.txt',
      ]);
      await unseed(under);
    });
    test('by time, folders first', async () => {
      const entries = await list({ prefix: folder, sortBy: { column: 'created_at', order: 'desc' } });
      expect(entries.map((entry) => entry.name)).toEqual([
        'a',
        'd',
        'x_y.txt',
        'Zed.txt',
        'other.txt',
        'first.txt',
        'fine.txt',
      ]);
    });
    test('folders that differ in case stay separate', async () => {
      const under = await seed(['Pics/1', 'pics/2', 'PICS/3']);
      expect((await list({ prefix: under })).map((entry) => entry.name)).toEqual(['PICS', 'Pics', 'pics']);
      await unseed(under);
    });
    test('a list without permission is empty', async () => {
      expect(await list({ prefix: folder }, P)).toEqual([]);
      expect((await api('POST', '/object/list/nope', { headers: A, body: { prefix: '' } })).json).toEqual([]);
    });
    test('a list without a prefix is refused', async () => {
      const answer = await api('POST', '/object/list/priv', { headers: A, body: {} });
      expect([answer.status, answer.json.message]).toEqual([
        400,
        "body must have required property 'prefix'",
      ]);
    });
    const listV2 = async (body: object): Promise<Wire> =>
      (await api('POST', '/object/list-v2/priv', { headers: A, body })).json;
    test('v2, flat', async () => {
      const page = await listV2({ prefix: `${folder}/d` });
      expect(page.objects.map((entry) => entry.name)).toEqual([`${folder}/d/one.txt`, `${folder}/d/two.txt`]);
      expect(page).toMatchObject({ hasNext: false, folders: [] });
      expect(page.objects[0]).not.toHaveProperty('key');
    });
    test('v2, with folders', async () => {
      const page = await listV2({ prefix: `${folder}/`, with_delimiter: true });
      expect(page.folders.map((entry) => [entry.name, entry.key])).toEqual([
        [`${folder}/a/`, 'a'],
        [`${folder}/d/`, 'd'],
      ]);
      expect(page.objects.find((entry) => entry.key === 'fine.txt')?.name).toBe(`${folder}/fine.txt`);
    });
    const walk = async (body: object): Promise<string[]> => {
      const names: string[] = [];
      let cursor: string | undefined;
      for (let page = 0; page < 50; page++) {
        const answer = await listV2({ ...body, ...(cursor === undefined ? {} : { cursor }) });
        names.push(
          ...answer.folders.map((entry) => entry.name),
          ...answer.objects.map((entry) => entry.name),
        );
        if (!answer.hasNext) return names;
        cursor = answer.nextCursor;
      }
      throw new Error('the pages do not end');
    };
    const tricky = ['a', 'a-1', 'a.txt', 'b', 'c/1', 'c/2', 'c0', 'c-', 'd_/x', 'da'];
    for (const order of ['asc', 'desc']) {
      for (const column of ['name', 'created_at', 'updated_at']) {
        test(`v2 pages by ${column} ${order} skip no entries`, async () => {
          const under = await seed(tricky);
          const flat = await walk({ prefix: `${under}/`, limit: 1, sortBy: { column, order } });
          expect([...flat].sort()).toEqual(tricky.map((name) => `${under}/${name}`).sort());
          const level = await walk({
            prefix: `${under}/`,
            limit: 1,
            with_delimiter: true,
            sortBy: { column, order },
          });
          const expected = ['a', 'a-1', 'a.txt', 'b', 'c/', 'c0', 'c-', 'd_/', 'da'].map(
            (name) => `${under}/${name}`,
          );
          expect([...level].sort()).toEqual([...expected].sort());
          if (column === 'name') {
            const sorted = [...flat].sort((x, y) => Buffer.compare(Buffer.from(x), Buffer.from(y)));
            expect(flat).toEqual(order === 'asc' ? sorted : sorted.reverse());
          }
          const whole = await walk({ prefix: `${under}/`, with_delimiter: true, sortBy: { column, order } });
          expect([...whole].sort()).toEqual([...expected].sort());
          await unseed(under);
        });
      }
    }
    test('an invalid cursor is refused', async () => {
      const answer = await api('POST', '/object/list-v2/priv', { headers: A, body: { cursor: 'x' } });
      expect(refused(answer)).toEqual([400, '400', 'InvalidParameter']);
    });
    test('through both clients', async () => {
      const old = createOldClient(world.origin, world.keys.publishable, {
        global: { headers: { authorization: `Bearer ${world.alice.token}` } },
      });
      for (const client of [old, world.client(world.alice)]) {
        const page = await client.storage
          .from('priv')
          .listV2({ prefix: `${folder}/`, with_delimiter: true, limit: 3 });
        expect([page.error, page.data?.hasNext]).toEqual([null, true]);
        const level = await client.storage
          .from('priv')
          .list(folder, { limit: 2, search: 'f', sortBy: { column: 'name', order: 'desc' } });
        expect(level.data?.map((entry: { name: string }) => entry.name)).toEqual(['first.txt', 'fine.txt']);
      }
    });
  });

  describe('removing, moving and copying', () => {
    test('remove by exact names, and delete the bytes', async () => {
      const name = fresh();
      await put(`priv/${name}`);
      const before = (await world.storage.sweepOrphans({ minAgeMs: 0, dryRun: true })).blobs;
      const answer = await api('DELETE', '/object/priv', { headers: A, body: { prefixes: [name, 'zz'] } });
      expect(answer.json).toHaveLength(1);
      expect(answer.json[0]).toMatchObject({
        name,
        bucket_id: 'priv',
        owner_id: world.alice.id,
        user_metadata: {},
      });
      expect(answer.json[0]).not.toHaveProperty('path_tokens');
      await consistent();
      expect((await world.storage.sweepOrphans({ minAgeMs: 0, dryRun: true })).blobs).toBeLessThan(before);
    });
    test('removing without permission removes nothing', async () => {
      const name = fresh();
      await put(`priv/${name}`);
      expect((await api('DELETE', '/object/priv', { headers: P, body: { prefixes: [name] } })).json).toEqual(
        [],
      );
      expect((await api('GET', `/object/priv/${name}`, { headers: A })).status).toBe(200);
    });
    test('remove takes 1 to 1000 names', async () => {
      const many = Array.from({ length: 1001 }, (_, n) => `n${n}`);
      expect(refused(await api('DELETE', '/object/priv', { headers: A, body: { prefixes: many } }))).toEqual([
        400,
        '400',
        'InvalidRequest',
      ]);
      expect((await api('DELETE', '/object/priv', { headers: A, body: { prefixes: [] } })).status).toBe(400);
      expect((await api('DELETE', '/object/nope', { headers: A, body: { prefixes: ['a'] } })).json).toEqual(
        [],
      );
    });
    test('deleting a missing object', async () => {
      expect((await api('DELETE', '/object/priv/none', { headers: A })).json.code).toBe('NoSuchKey');
    });
    test('deleting an object that may only be read is refused', async () => {
      const name = fresh();
      await put(`ro/${name}`, 'x', {}, S);
      const answer = await api('DELETE', `/object/ro/${name}`, { headers: A });
      expect([answer.status, answer.json.statusCode, answer.json.message]).toEqual([
        400,
        '403',
        'Access denied',
      ]);
      const mine = fresh();
      await put(`priv/${mine}`);
      expect((await api('DELETE', `/object/priv/${mine}`, { headers: A })).json).toEqual({
        message: 'Successfully deleted',
      });
    });
    const move = (body: object, as = A): Promise<Answer> =>
      api('POST', '/object/move', { headers: as, body });
    test('move renames an object', async () => {
      const [from, to] = [fresh(), `${fresh()}/deeper`];
      const { Id } = await put(`priv/${from}`, 'moving');
      const answer = await move({ bucketId: 'priv', sourceKey: from, destinationKey: to });
      expect(answer.json).toEqual({ message: 'Successfully moved' });
      expect((await info(`priv/${from}`)).code).toBe('NoSuchKey');
      expect((await info(`priv/${to}`)).id).toBe(Id);
      expect((await api('GET', `/object/priv/${to}`, { headers: A })).text).toBe('moving');
      expect((await move({ bucketId: 'priv', sourceKey: to, destinationKey: to })).status).toBe(200);
    });
    test('move to a taken name is refused', async () => {
      const [from, to] = [fresh(), fresh()];
      await put(`priv/${from}`);
      await put(`priv/${to}`);
      expect((await move({ bucketId: 'priv', sourceKey: from, destinationKey: to })).json.statusCode).toBe(
        '409',
      );
    });
    test('move to another bucket', async () => {
      const from = fresh();
      await put(`priv/${from}`);
      const closed = await move({
        bucketId: 'priv',
        sourceKey: from,
        destinationBucket: 'ro',
        destinationKey: from,
      });
      expect(closed.json.statusCode).toBe('403');
      const open = await move({
        bucketId: 'priv',
        sourceKey: from,
        destinationBucket: 'shared',
        destinationKey: from,
      });
      expect(open.json).toEqual({ message: 'Successfully moved' });
      const stranger = fresh();
      await put(`priv/${stranger}`);
      const theft = await move({ bucketId: 'priv', sourceKey: stranger, destinationKey: `${stranger}2` }, B);
      expect(theft.json.code).toBe('NoSuchKey');
    });
    test('move follows the rules of the destination bucket', async () => {
      const from = fresh();
      await put(`priv/${from}`, 'text');
      const answer = await move({
        bucketId: 'priv',
        sourceKey: from,
        destinationBucket: 'img',
        destinationKey: from,
      });
      expect(answer.json.statusCode).toBe('415');
      await put(`priv/${from}.png`, 'x'.repeat(2000), { 'content-type': 'image/png' });
      const large = await move({
        bucketId: 'priv',
        sourceKey: `${from}.png`,
        destinationBucket: 'img',
        destinationKey: from,
      });
      expect(large.json.statusCode).toBe('413');
    });
    const copy = (body: object, headers: Record<string, string> = {}): Promise<Answer> =>
      api('POST', '/object/copy', { headers: { ...A, ...headers }, body });
    test('copy makes a second object', async () => {
      const [from, to] = [fresh(), fresh()];
      await put(`priv/${from}`, 'copied', { 'x-metadata': Buffer.from('{"k":1}').toString('base64') });
      const answer = await copy({ bucketId: 'priv', sourceKey: from, destinationKey: to });
      expect(answer.json.Key).toBe(`priv/${to}`);
      for (const name of [from, to])
        expect((await api('GET', `/object/priv/${name}`, { headers: A })).text).toBe('copied');
      expect((await info(`priv/${to}`)).metadata).toEqual({ k: 1 });
      await api('DELETE', `/object/priv/${from}`, { headers: A });
      await consistent();
      expect((await api('GET', `/object/priv/${to}`, { headers: A })).text).toBe('copied');
    });
    test('copy with other metadata', async () => {
      const [from, to] = [fresh(), fresh()];
      await put(`priv/${from}`, 'x', { 'cache-control': 'max-age=5' });
      await copy({
        bucketId: 'priv',
        sourceKey: from,
        destinationKey: to,
        copyMetadata: false,
        metadata: { mimetype: 'image/gif' },
      });
      expect(await info(`priv/${to}`)).toMatchObject({
        content_type: 'image/gif',
        cache_control: 'max-age=5',
        metadata: null,
      });
    });
    test('copy to a taken name is refused', async () => {
      const [from, to] = [fresh(), fresh()];
      await put(`priv/${from}`, 'one');
      await put(`priv/${to}`, 'two');
      expect((await copy({ bucketId: 'priv', sourceKey: from, destinationKey: to })).json.statusCode).toBe(
        '409',
      );
      expect(
        (await copy({ bucketId: 'priv', sourceKey: from, destinationKey: to }, { 'x-upsert': 'true' }))
          .status,
      ).toBe(200);
      expect((await api('GET', `/object/priv/${to}`, { headers: A })).text).toBe('one');
      await consistent();
    });
  });

  describe('signed links', () => {
    const sign = async (path: string, body: object = { expiresIn: 60 }, as = A): Promise<Answer> =>
      api('POST', `/object/sign/${path}`, { headers: as, body });
    test('a signed link gives access', async () => {
      const name = fresh();
      await put(`priv/${name}`, 'signed');
      const { signedURL } = (await sign(`priv/${name}`)).json;
      expect(signedURL).toMatch(/^\/object\/sign\/priv\/.+\?token=/);
      const answer = await api('GET', signedURL);
      expect([answer.status, answer.text]).toEqual([200, 'signed']);
      expect(Date.parse(answer.headers.get('expires') ?? '')).toBeGreaterThan(Date.now());
      expect(answer.headers.get('cache-control')).toBeNull();
    });
    test('names that need encoding', async () => {
      const bucket = world.client(world.alice).storage.from('priv');
      for (const leaf of ['x y.txt', 'a+b@c:d,e;f=g&h.txt', "it's (1)!.txt", '$*.txt']) {
        const name = `${fresh()}/${leaf}`;
        expect((await bucket.upload(name, leaf)).error).toBeNull();
        const { data } = await bucket.createSignedUrl(name, 60, { download: true });
        const answer = await call('GET', data?.signedUrl ?? '');
        expect([answer.text, answer.headers.get('content-disposition')]).toEqual([leaf, 'attachment;']);
      }
    });
    test('a missing or hidden object cannot be signed', async () => {
      expect((await sign('priv/none')).json.code).toBe('NoSuchKey');
      const name = fresh();
      await put(`priv/${name}`);
      expect((await sign(`priv/${name}`, { expiresIn: 60 }, B)).json.code).toBe('NoSuchKey');
    });
    test('a version that is not the current one cannot be signed', async () => {
      const name = fresh();
      await put(`priv/${name}`);
      const { version } = await info(`priv/${name}`);
      expect((await sign(`priv/${name}`, { expiresIn: 60, versionId: version })).status).toBe(200);
      const second = await sign(`priv/${name}`, { expiresIn: 60, versionId: randomUUID() });
      expect(second.json.code).toBe('NoSuchKey');
    });
    test('many links at once', async () => {
      const name = fresh();
      await put(`priv/${name}`);
      const { data } = await world
        .client(world.alice)
        .storage.from('priv')
        .createSignedUrls(['none', name], 60);
      expect(data).toMatchObject([
        { path: 'none', error: 'Either the object does not exist or you do not have access to it' },
        { path: name, error: null },
      ]);
      expect((await call('GET', data?.[1]?.signedUrl ?? '')).status).toBe(200);
    });
    test('a token is for one object and one purpose', async () => {
      const [one, two] = [fresh(), fresh()];
      await put(`priv/${one}`);
      await put(`priv/${two}`);
      const token = new URL(`http://x${(await sign(`priv/${one}`)).json.signedURL}`).searchParams.get(
        'token',
      );
      expect((await api('GET', `/object/sign/priv/${two}?token=${token}`)).json.code).toBe(
        'InvalidSignature',
      );
      const upload = await api('PUT', `/object/upload/sign/priv/${one}?token=${token}`, { body: 'x' });
      expect(upload.json.code).toBe('InvalidSignature');
    });
    test('an expired link is refused', async () => {
      const name = fresh();
      await put(`priv/${name}`);
      const { signedURL } = (await sign(`priv/${name}`, { expiresIn: 1 })).json;
      await until(async () => (await api('GET', signedURL)).status === 400, 'expiry');
      expect((await api('GET', signedURL)).json.code).toBe('InvalidJWT');
    });
    test('a signed link is not a login', async () => {
      const name = fresh();
      await put(`priv/${name}`);
      const token = new URL(`http://x${(await sign(`priv/${name}`)).json.signedURL}`).searchParams.get(
        'token',
      );
      const answer = await api('POST', '/object/list/priv', {
        headers: { ...P, authorization: `Bearer ${token}` },
        body: { prefix: '' },
      });
      expect(answer.json.statusCode).toBe('403');
      const login = await api('GET', `/object/sign/priv/${name}?token=${world.alice.token}`);
      expect(login.json.code).toBe('InvalidJWT');
    });
    test('expiresIn must be a safe whole number of seconds', async () => {
      const name = fresh();
      await put(`priv/${name}`);
      for (const expiresIn of [0, -1, 1.5, '1.5', 'soon', null, Number.MAX_SAFE_INTEGER]) {
        expect((await sign(`priv/${name}`, { expiresIn })).status, String(expiresIn)).toBe(400);
      }
      // Format of the Python client.
      expect((await sign(`priv/${name}`, { expiresIn: '60' })).status).toBe(200);
    });
    const uploadLink = async (path: string, headers: Record<string, string> = {}): Promise<Wire> =>
      (await api('POST', `/object/upload/sign/${path}`, { headers: { ...A, ...headers }, body: {} })).json;
    test('an upload with a signed link', async () => {
      const name = fresh();
      const bucket = world.client(world.alice).storage.from('priv');
      const { data } = await bucket.createSignedUploadUrl(name);
      const result = await world
        .client()
        .storage.from('priv')
        .uploadToSignedUrl(name, data?.token ?? '', 'by link');
      expect(result.data?.fullPath).toBe(`priv/${name}`);
      expect(await (await bucket.download(name)).data?.text()).toBe('by link');
      const [row] = await world.owner.query<{ owner_id: string }>(
        sql`select owner_id from storage.objects where name = ${name}`,
      );
      expect(row?.owner_id).toBe(world.alice.id);
    });
    test('a link for a new object works once', async () => {
      const name = fresh();
      const { url } = await uploadLink(`priv/${name}`);
      expect((await api('PUT', url, { body: 'one' })).json).toEqual({ Key: `priv/${name}` });
      expect((await api('PUT', url, { body: 'two', headers: { 'x-upsert': 'true' } })).json.statusCode).toBe(
        '409',
      );
      expect((await uploadLink(`priv/${name}`)).statusCode).toBe('409');
      const again = await uploadLink(`priv/${name}`, { 'x-upsert': 'true' });
      expect((await api('PUT', again.url, { body: 'two' })).status).toBe(200);
      expect((await api('PUT', again.url, { body: 'three' })).status).toBe(200);
    });
    test('a link does not lift the limits', async () => {
      const { url } = await uploadLink(`img/${fresh()}`);
      const headers = { 'content-type': 'image/png' };
      expect((await api('PUT', url, { body: 'x'.repeat(1001), headers })).json.statusCode).toBe('413');
      expect(
        (await api('PUT', url, { body: 'x', headers: { 'content-type': 'text/plain' } })).json.statusCode,
      ).toBe('415');
    });
  });

  describe('buckets', () => {
    test('buckets are listed', async () => {
      const all = await world.client('service').storage.listBuckets();
      expect(all.data?.map((bucket) => bucket.id)).toEqual(['img', 'priv', 'pub', 'ro', 'shared', 'typed']);
      const image = all.data?.[0];
      expect(image).toMatchObject({
        id: 'img',
        name: 'img',
        public: false,
        file_size_limit: 1000,
        allowed_mime_types: ['image/*'],
      });
      expect((await world.client(world.alice).storage.listBuckets()).data).toEqual([]);
      const found = await api('GET', '/bucket?limit=1&offset=1&sortColumn=name&sortOrder=desc&search=P', {
        headers: S,
      });
      expect(found.json.map((bucket) => bucket.id)).toEqual(['pub']);
      expect((await api('GET', '/bucket?search=%25', { headers: S })).json).toEqual([]);
    });
    test('get', async () => {
      expect((await world.client('service').storage.getBucket('pub')).data?.public).toBe(true);
      expect(refused(await api('GET', '/bucket/nope', { headers: S }))).toEqual([400, '404', 'NoSuchBucket']);
      expect(refused(await api('GET', '/bucket/pub', { headers: A }))).toEqual([400, '404', 'NoSuchBucket']);
    });
    test('creating a declared bucket reports that it exists', async () => {
      const { error } = await world.client('service').storage.createBucket('pub');
      expect(error).toMatchObject({ statusCode: '409', message: 'The resource already exists' });
    });
    test('creating another bucket is refused', async () => {
      const answer = await api('POST', '/bucket', { headers: S, body: { id: 'zzz', name: 'zzz' } });
      expect(refused(answer)).toEqual([405, '405', 'NotSupported']);
      expect(answer.headers.get('allow')).toBe('GET, HEAD');
      expect((await api('POST', '/bucket', { headers: A, body: { id: 'zzz' } })).json.statusCode).toBe('403');
    });
    test('changing a bucket is refused', async () => {
      const changes: ReadonlyArray<[string, string]> = [
        ['PUT', '/bucket/pub'],
        ['DELETE', '/bucket/pub'],
        ['POST', '/bucket/pub/empty'],
        ['PUT', '/bucket/pub/lifecycle'],
        ['DELETE', '/bucket/pub/lifecycle'],
        ['GET', '/bucket/pub/lifecycle'],
      ];
      for (const [method, path] of changes) {
        const body = method === 'GET' ? {} : { body: {} };
        expect((await api(method, path, { headers: S, ...body })).status, path).toBe(405);
        expect((await api(method, path, { headers: A, ...body })).json.statusCode, path).toBe('403');
      }
      expect((await api('DELETE', '/bucket/nope', { headers: S })).json.code).toBe('NoSuchBucket');
      const empty = await api('DELETE', '/bucket/pub', {
        headers: { ...S, 'content-type': 'application/json' },
      });
      expect(empty.status).toBe(405);
    });
    test('cache purge', async () => {
      expect(
        (await api('DELETE', '/cdn/pub/a.png?transformations=true', { headers: S, body: {} })).json,
      ).toEqual({ message: 'success' });
      expect((await api('DELETE', '/cdn/pub', { headers: A })).status).toBe(403);
    });
    test('missing buckets are reported', async () => {
      expect(refused(await api('POST', '/vector/CreateIndex', { headers: S, body: {} }))).toEqual([
        403,
        '403',
        'FeatureNotEnabled',
      ]);
      expect(refused(await api('GET', '/iceberg/v1/config', { headers: S }))).toEqual([
        403,
        '403',
        'FeatureNotEnabled',
      ]);
      expect((await api('GET', '/status')).status).toBe(200);
    });
    test('the S3 endpoint reports in XML that it does not exist', async () => {
      for (const path of ['/s3', '/s3/pub/a.png?list-type=2']) {
        const answer = await api('GET', path, { headers: S });
        expect(answer.status).toBe(501);
        expect(answer.headers.get('content-type')).toContain('application/xml');
        expect(answer.text).toContain('<Code>NotImplemented</Code>');
      }
    });
    test('metadata with text that the database cannot store is rejected', async () => {
      for (const text of [String.raw`{"k":"\u0000"}`, String.raw`{"k":"\ud800"}`]) {
        const headers = {
          ...A,
          'content-type': 'text/plain',
          'x-metadata': Buffer.from(text).toString('base64'),
        };
        const answer = await api('POST', '/object/priv/unstorable.txt', { headers, body: 'x' });
        expect(refused(answer)[0]).toBe(400);
      }
    });
  });

  describe('pictures', () => {
    let name: string;
    beforeAll(async () => {
      name = `pub/${fresh()}.png`;
      const picture = await sharp({ create: { width: 100, height: 50, channels: 3, background: '#08f' } })
        .png()
        .toBuffer();
      await put(name, picture, { 'content-type': 'image/png' });
      await put(name.replace('pub', 'priv'), picture, { 'content-type': 'image/png' });
    });
    test('an image is resized', async () => {
      const answer = await api('GET', `/render/image/public/${name}?width=10`);
      expect(answer.headers.get('x-transformations')).toBe('width:10,resizing_type:fill');
      expect(await sharp(answer.bytes).metadata()).toMatchObject({ width: 10, height: 5, format: 'png' });
      const all = await api('GET', `/render/image/public/${name}?width=20&height=20&resize=fill&quality=60`);
      expect(all.headers.get('x-transformations')).toBe('height:20,width:20,resizing_type:force,quality:60');
      expect(all.headers.get('etag')).not.toBe(answer.headers.get('etag'));
      expect(await sharp(all.bytes).metadata()).toMatchObject({ width: 20, height: 20 });
      const same = await api('GET', `/render/image/public/${name}?width=10`, {
        headers: { 'if-none-match': answer.headers.get('etag') ?? '' },
      });
      expect(same.status).toBe(304);
      const webp = await api('GET', `/render/image/public/${name}?width=10`, {
        headers: { accept: 'image/avif,image/webp,*/*' },
      });
      expect([webp.headers.get('content-type'), webp.headers.get('vary')]).toEqual([
        'image/webp',
        expect.stringContaining('Accept'),
      ]);
    });
    test('a private image with credentials and with a link', async () => {
      const closed = name.replace('pub', 'priv');
      const bucket = world.client(world.alice).storage.from('priv');
      const { data } = await bucket.download(closed.slice(5), {
        transform: { width: 10, height: 10, resize: 'contain' },
      });
      expect(
        await sharp(Buffer.from((await data?.arrayBuffer()) ?? new ArrayBuffer())).metadata(),
      ).toMatchObject({ width: 10, height: 5 });
      expect(
        (await api('GET', `/render/image/authenticated/${closed}?width=10`, { headers: B })).json.code,
      ).toBe('NoSuchKey');
      const signed = await bucket.createSignedUrl(closed.slice(5), 60, { transform: { width: 10 } });
      expect(signed.data?.signedUrl).toContain('/render/image/sign/');
      expect((await call('GET', signed.data?.signedUrl ?? '')).headers.get('x-transformations')).toBe(
        'width:10,resizing_type:fill',
      );
      const original = (signed.data?.signedUrl ?? '').replace('/render/image/sign/', '/object/sign/');
      expect((await call('GET', original)).json.code).toBe('InvalidSignature');
    });
    test('a file that is not an image is rejected', async () => {
      const text = `pub/${fresh()}.png`;
      await put(text, 'no picture', { 'content-type': 'image/png' });
      expect(refused(await api('GET', `/render/image/public/${text}?width=10`))).toEqual([
        400,
        '400',
        'InvalidRequest',
      ]);
      for (const query of ['width=abc', 'resize=zoom', 'quality=500', 'format=bmp']) {
        expect((await api('GET', `/render/image/public/${name}?${query}`)).status, query).toBe(400);
      }
    });
  });

  describe('around the routes', () => {
    test('CORS for an allowed origin', async () => {
      const preflight = await api('OPTIONS', '/object/priv/a', {
        headers: {
          origin: DISPLAY,
          'access-control-request-method': 'POST',
          'access-control-request-headers': 'x-upsert, x-metadata',
        },
      });
      expect(preflight.headers.get('access-control-allow-origin')).toBe(DISPLAY);
      expect(preflight.headers.get('access-control-allow-headers')).toContain('x-upsert');
      const refusal = await api('POST', '/object/list/priv', { headers: { origin: DISPLAY }, body: {} });
      expect([refusal.status, refusal.headers.get('access-control-allow-origin')]).toEqual([401, DISPLAY]);
    });
    test('no CORS headers for another origin', async () => {
      const answer = await api('GET', '/object/public/pub/none', {
        headers: { origin: 'https://other.example' },
      });
      expect(answer.headers.get('access-control-allow-origin')).toBeNull();
    });
    test('a restrictive policy affects only its bucket', async () => {
      const name = `hidden-${fresh()}`;
      await put(`priv/${name}`);
      await put(`shared/${name}`);
      expect((await info(`priv/${name}`)).code).toBe('NoSuchKey');
      expect((await info(`shared/${name}`)).name).toBe(name);
    });
    test('direct writes to the table are rejected', async () => {
      const claims = JSON.stringify({ role: 'authenticated', sub: world.alice.id });
      const write = world.callers.run({ role: 'authenticated', claims }, [
        {
          text: "insert into storage.objects (bucket_id, name, owner_id) values ('priv', 'direct', auth.uid()::text)",
          values: [],
        },
      ]);
      await expect(write).rejects.toMatchObject({ code: '42501' });
    });
    test('a large metadata header', async () => {
      const name = fresh();
      const metadata = Buffer.from(JSON.stringify({ text: 'm'.repeat(20_000) })).toString('base64');
      await put(`priv/${name}`, 'x', { 'x-metadata': metadata });
      expect((await info(`priv/${name}`)).metadata.text).toHaveLength(20_000);
    });
    test('an unknown route', async () => {
      const answer = await api('GET', '/object');
      expect([answer.status, answer.json]).toEqual([
        404,
        {
          statusCode: '404',
          error: 'Not Found',
          message: 'Route GET:/storage/v1/object not found',
          code: 'InvalidRequest',
        },
      ]);
    });
    test('errors are not cached', async () => {
      expect((await api('GET', '/object/public/pub/none')).headers.get('cache-control')).toBe('no-store');
    });
  });

  test('at the end every blob belongs to an object', consistent);
}
