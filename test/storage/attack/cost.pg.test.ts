// Expensive requests: decompression bombs, endless lists, endless bodies.
import { randomUUID } from 'node:crypto';
import { deflateSync, crc32 } from 'node:zlib';
import sharp from 'sharp';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { raw } from '../../../src/postgres/sql.ts';
import { call, openRaw, until } from '../conformance/http.ts';
import { aBucket, createWorld, OWN, type World } from '../conformance/world.ts';

let world: World;
beforeAll(async () => {
  world = await createWorld({
    buckets: [aBucket('pub', { public: true, rls: [OWN] })],
    maxBodyBytes: 64 * 1024,
    storage: {
      limits: {
        concurrentUploads: 3,
        images: {
          maxInputPixels: 4_000_000,
          maxInputBytes: 5_000_000,
          timeoutSeconds: 20,
          concurrent: 1,
          waiting: 2,
        },
      },
    },
  });
});
afterAll(() => world?.stop());

/** A PNG of one colour: a tiny file and a huge picture. */
function bomb(width: number, height: number): Buffer {
  const chunk = (type: string, data: Buffer): Buffer => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const head = Buffer.alloc(4);
    head.writeUInt32BE(data.length);
    const tail = Buffer.alloc(4);
    tail.writeUInt32BE(crc32(body));
    return Buffer.concat([head, body, tail]);
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([1, 0, 0, 0, 0], 8);
  const pixels = deflateSync(Buffer.alloc((Math.ceil(width / 8) + 1) * height));
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    chunk('IHDR', header),
    chunk('IDAT', pixels),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

const put = async (body: Buffer | string, type = 'image/png'): Promise<string> => {
  const name = `${randomUUID()}.png`;
  const answer = await call('POST', `${world.url}/object/pub/${name}`, {
    headers: { ...world.alice.headers, 'content-type': type },
    body,
  });
  expect(answer.status).toBe(200);
  return name;
};
const render = (name: string, query = 'width=10') =>
  call('GET', `${world.url}/render/image/public/pub/${name}?${query}`);

test('a picture of too many pixels', async () => {
  const small = bomb(20_000, 20_000);
  expect(small.length).toBeLessThan(500_000);
  // Measures CPU time of this process, which includes the server and excludes other work on the machine.
  const before = process.cpuUsage();
  const answer = await render(await put(small));
  expect([answer.status, answer.json.code]).toEqual([400, 'InvalidRequest']);
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1_000).toBeLessThan(1_500);
});

test('a picture of too many bytes is not read', async () => {
  expect((await render(await put(Buffer.alloc(5_000_001, 1)))).status).toBe(400);
});

test('SVG is not accepted as a picture', async () => {
  const svg =
    '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"><image href="file:///etc/passwd"/></svg>';
  expect((await render(await put(svg, 'image/svg+xml'))).status).toBe(400);
  expect((await render(await put(svg, 'image/png'))).status).toBe(400);
  // The library's SVG reader is disabled too.
  await expect(sharp(Buffer.from(svg)).metadata()).rejects.toThrow();
});

test.each(['jpeg', 'png', 'webp', 'gif', 'tiff', 'avif'] as const)(
  '%s is accepted as a picture',
  async (format) => {
    const picture = sharp({ create: { width: 20, height: 20, channels: 3, background: '#fff' } });
    const name = await put(await picture.toFormat(format).toBuffer(), `image/${format}`);
    const answer = await render(name);
    expect((await sharp(answer.bytes).metadata()).width).toBe(10);
  },
);

test('sizes are limited', async () => {
  const name = await put(
    await sharp({ create: { width: 20, height: 20, channels: 3, background: '#fff' } })
      .png()
      .toBuffer(),
  );
  const answer = await render(name, 'width=999999&height=999999&resize=fill');
  expect(answer.headers.get('x-transformations')).toBe('height:2000,width:2000,resizing_type:force');
});

test('limits concurrent pictures', async () => {
  const name = await put(
    await sharp({
      create: {
        width: 900,
        height: 900,
        channels: 3,
        background: '#888',
        noise: { type: 'gaussian', mean: 128, sigma: 60 },
      },
    })
      .png()
      .toBuffer(),
  );
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, n) => render(name, `width=${800 + n}&format=webp`)),
  );
  const statuses = answers.map((answer) => answer.status);
  expect(statuses.filter((status) => status === 200)).toHaveLength(3);
  expect(statuses.filter((status) => status === 429)).toHaveLength(5);
  expect((await render(name)).status).toBe(200);
});

test('a JSON body over the limit, declared or not', async () => {
  for (const path of [
    '/object/list/pub',
    '/object/list-v2/pub',
    '/object/sign/pub',
    '/object/move',
    '/object/copy',
    '/bucket',
  ]) {
    const answer = await call('POST', `${world.url}${path}`, {
      headers: world.service,
      body: { prefix: 'x'.repeat(100_000) },
    });
    expect([answer.status, answer.json.statusCode], path).toEqual([400, '413']);
  }
});

test('invalid JSON bodies', async () => {
  const nested = `${'['.repeat(30_000)}${']'.repeat(30_000)}`;
  for (const body of [
    nested,
    'null',
    '[]',
    '"x"',
    '{"prefix":{}}',
    '{"prefix":null}',
    '{"prefix":"","limit":1e99}',
    '{',
    '\u0000',
    '{"__proto__":{"prefix":""}}',
  ]) {
    const answer = await call('POST', `${world.url}/object/list/pub`, { headers: world.alice.headers, body });
    expect(answer.status, body.slice(0, 40)).toBe(400);
  }
});

test('boundary values of list parameters', async () => {
  const list = (body: object) =>
    call('POST', `${world.url}/object/list/pub`, { headers: world.alice.headers, body });
  expect((await list({ prefix: '', limit: 1e9 })).status).toBe(200);
  expect((await list({ prefix: '', offset: Number.MAX_SAFE_INTEGER })).json).toHaveLength(0);
  expect((await list({ prefix: '', limit: 0 })).status).toBe(400);
  expect((await list({ prefix: '', offset: -1 })).status).toBe(400);
  expect((await list({ prefix: 'x\u0000y' })).status).toBeLessThan(500);
});

test('limits concurrent uploads', async () => {
  const open = await Promise.all(
    Array.from({ length: 3 }, () =>
      openRaw(world.url, 'POST', `/storage/v1/object/pub/${randomUUID()}`, {
        ...world.alice.headers,
        'content-length': '100',
      }),
    ),
  );
  for (const request of open) request.socket.write('x');
  await until(async () => (await world.owner.query(raw('select from storage.pending_blobs'))).length === 3);
  const more = await call('POST', `${world.url}/object/pub/${randomUUID()}`, {
    headers: world.alice.headers,
    body: 'x',
  });
  expect([more.status, more.json.code, more.headers.get('retry-after')]).toEqual([429, 'SlowDown', '1']);
  for (const request of open) request.socket.destroy();
  await until(
    async () =>
      (
        await call('POST', `${world.url}/object/pub/${randomUUID()}`, {
          headers: world.alice.headers,
          body: 'x',
        })
      ).status === 200,
  );
});

test('a form with too many parts', async () => {
  const form = new FormData();
  for (let n = 0; n < 50; n++) form.append(`field${n}`, 'x');
  for (let n = 0; n < 5; n++) form.append('', new Blob([`file ${n}`]), `f${n}`);
  const name = randomUUID();
  const answer = await call('POST', `${world.url}/object/pub/${name}`, {
    headers: world.alice.headers,
    body: form,
  });
  expect(answer.status).toBe(200);
  expect((await call('GET', `${world.url}/object/public/pub/${name}`)).text).toBe('file 0');
  const large = new FormData();
  large.append('metadata', JSON.stringify({ text: 'x'.repeat(1_100_000) }));
  large.append('', new Blob(['x']), 'x');
  const refused = await call('POST', `${world.url}/object/pub/${randomUUID()}`, {
    headers: world.alice.headers,
    body: large,
  });
  expect([refused.json.statusCode, refused.json.message]).toEqual([
    '413',
    expect.stringContaining('user_metadata'),
  ]);
});

test('ranges', async () => {
  const name = await put('0123456789');
  for (const range of [
    'bytes=0-0,2-3',
    'bytes=abc',
    'bytes=5-2',
    'bytes=-0',
    'bytes=99999999999999999999-',
    'items=0-1',
    `bytes=${'0-1,'.repeat(1000)}`,
  ]) {
    expect(
      (await call('GET', `${world.url}/object/public/pub/${name}`, { headers: { range } })).status,
      range.slice(0, 20),
    ).toBe(416);
  }
});
