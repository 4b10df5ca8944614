// Oversized requests: each hits a limit with a clear error, and memory stays bounded.
import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { raw } from '../../../src/postgres/sql.ts';
import { WORLD } from '../fixture.ts';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { createRestWorld, KEYS, type RestWorld } from '../../support/rest-world.ts';
import { scaled } from '../../support/run/scaled.ts';

let database: TestDatabase;
let world: RestWorld;

beforeAll(async () => {
  database = await createDatabase();
  world = await createRestWorld({ url: database.url, ...WORLD, poolSize: 2 });
});

afterAll(async () => {
  await world.close();
  await database.drop();
});

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + scaled(10_000);
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error('the condition was never met');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

test('fifty levels of nesting', async () => {
  const embeds = `/nodes?select=${'k:nodes(id,'.repeat(50)}id${')'.repeat(50)}`;
  expect(await world.send(embeds)).toMatchObject({ status: 400, json: { code: 'PGRST100' } });
  const logic = `/nodes?select=id&or=(${'and('.repeat(50)}id.eq.1${')'.repeat(50)})`;
  expect((await world.send(logic)).json).toEqual([{ id: 1 }]);
  const deep = `/nodes?select=id&or=(${'and('.repeat(100)}id.eq.1${')'.repeat(100)})`;
  expect(await world.send(deep)).toMatchObject({ status: 400, json: { code: 'PGRST100' } });
  expect((await world.send(`/authors?select=bio${'->a'.repeat(50)}&id=eq.1`)).status).toBe(200);
});

test('too many embeds and too many parameters', async () => {
  const many = Array.from({ length: 150 }, (_, index) => `k${index}:nodes(id)`).join(',');
  expect((await world.send(`/nodes?select=${many}`)).status).toBe(400);
  const parameters = Array.from({ length: 1_100 }, () => 'id=gt.0').join('&');
  expect((await world.send(`/nodes?${parameters}`)).status).toBe(400);
});

test('a long in-list is one parameter', async () => {
  const ids = Array.from({ length: 2_000 }, (_, index) => index).join(',');
  const answer = await world.send(`/items?id=in.(${ids})&limit=100`);
  expect(answer.json).toHaveLength(57);
});

test('a body of ten megabytes is refused before it is read', async () => {
  const answer = await world.send('/inbox', { method: 'POST', body: Buffer.alloc(10_000_000, 0x20) });
  expect(answer).toMatchObject({ status: 413, json: { code: 'SVC101', hint: expect.any(String) } });
});

test('a body of unknown length is rejected as soon as it exceeds the limit', async () => {
  const status = await new Promise<number>((resolve, reject) => {
    const sent = request(
      `${world.restUrl}/inbox`,
      { method: 'POST', headers: { apikey: KEYS.publishable, 'content-type': 'application/json' } },
      (answer) => {
        answer.resume();
        resolve(answer.statusCode ?? 0);
        sent.destroy();
      },
    );
    sent.on('error', reject);
    const piece = Buffer.alloc(64 * 1024, 0x20);
    for (let index = 0; index < 40; index++) sent.write(piece);
  });
  expect(status).toBe(413);
});

test('a client that disconnects cancels its statement', async () => {
  const busy = (): number => world.callers.size.open - world.callers.size.idle;
  const sent = request(`${world.restUrl}/rpc/slow`, {
    method: 'POST',
    headers: { apikey: KEYS.publishable, 'content-type': 'application/json' },
  });
  sent.on('error', () => {});
  // Longer than the timeout of `until`.
  sent.end('{"seconds":3600}');
  await until(() => busy() === 1);
  sent.destroy();
  await until(() => busy() === 0);
});

test('clients that stop reading keep no connection to the database', async () => {
  const { port, host } = new URL(world.url);
  const sockets = Array.from({ length: 20 }, () => {
    const socket = connect(Number(port));
    socket.on('error', () => {});
    // Paused: the response stays in the kernel's buffers.
    socket.pause();
    socket.write(
      `GET /rest/v1/rpc/table_result?n=40000 HTTP/1.1\r\nhost: ${host}\r\napikey: ${KEYS.publishable}\r\n\r\n`,
    );
    return socket;
  });
  const isIdle = (): boolean => {
    const { waiting, idle, open } = world.callers.size;
    return waiting === 0 && idle === open;
  };
  await until(isIdle);
  // Other callers are served as usual.
  expect((await world.send('/genres')).status).toBe(200);
  for (const socket of sockets) socket.destroy();
});

async function withLimits(
  limits: { readonly maxResponseBytes?: number; readonly responseIdleMs?: number },
  work: (small: RestWorld) => Promise<void>,
): Promise<void> {
  const own = await createDatabase();
  const small = await createRestWorld({ url: own.url, ...WORLD, poolSize: 1, ...limits });
  try {
    await work(small);
  } finally {
    await small.close();
    await own.drop();
  }
}

test('a response that would be too large is rejected in every format', () =>
  withLimits({ maxResponseBytes: 400 }, async (small) => {
    const tooLarge = { status: 400, json: { code: 'SVC103', hint: expect.any(String) } };
    // As one value that the database builds, smaller and larger than one read.
    expect(await small.send('/items')).toMatchObject({ status: 200 });
    expect(await small.send('/items?limit=100')).toMatchObject(tooLarge);
    expect(await small.send('/rpc/table_result?n=40000')).toMatchObject(tooLarge);
    // Row by row.
    expect(await small.send('/items?limit=500')).toMatchObject(tooLarge);
    expect(await small.send('/items?limit=500&id=lt.5')).toMatchObject({ status: 200 });
    expect(small.callers.size).toMatchObject({ open: 1, waiting: 0 });
  }));

test('a skipped response uses no memory', () =>
  withLimits({ maxResponseBytes: 100_000 }, async (small) => {
    await small.send('/rpc/table_result?n=10');
    const before = process.memoryUsage().arrayBuffers;
    let most = 0;
    const watch = setInterval(() => (most = Math.max(most, process.memoryUsage().arrayBuffers)), 5);
    const answer = await small.send('/rpc/table_result?n=400000');
    clearInterval(watch);
    expect(answer).toMatchObject({ status: 400, json: { code: 'SVC103' } });
    // The response would have 12 MB.
    expect(most - before).toBeLessThan(5_000_000);
  }));

test('a client that does not read its answer is disconnected', () =>
  withLimits({ responseIdleMs: 1_000 }, async (small) => {
    await small.owner.query(
      raw(
        `create function twelve_megabytes() returns text stable language sql as $$ select repeat('x', 12000000) $$`,
      ),
    );
    await small.refresh();
    const { port, host } = new URL(small.url);
    const socket = connect(Number(port));
    socket.on('error', () => {});
    socket.pause();
    socket.write(
      `GET /rest/v1/rpc/twelve_megabytes HTTP/1.1\r\nhost: ${host}\r\n` +
        `apikey: ${KEYS.publishable}\r\nconnection: close\r\n\r\n`,
    );
    await until(async () => (await small.connections()) === 1);
    await until(async () => (await small.connections()) === 0);
    let bytes = 0;
    socket.on('data', (piece) => (bytes += piece.length));
    const closed = once(socket, 'close');
    socket.resume();
    await closed;
    // The client still reads what the kernel has buffered.
    expect(bytes).toBeGreaterThan(0);
    expect(bytes).toBeLessThan(10_000_000);
  }));
