// Clients that read slowly, and a server that is full: queues stay bounded, and other clients are not affected.
import pg from 'pg';
import { WebSocket } from 'ws';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { RawSocket } from './raw-socket.ts';

const YAML = `
version: 1
project: { name: slow }
realtime: { limits: { messages: 1000, connections: 4 } }
tables:
  rows:
    realtime: true
    rls: false
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: text, type: text }
`;

let world: BackendWorld;
const sockets: RawSocket[] = [];

beforeAll(async () => {
  world = await startBackendWorld(YAML);
});

afterAll(async () => {
  for (const socket of sockets) socket.close();
  await world.close();
});

async function open(): Promise<RawSocket> {
  const socket = await RawSocket.open(world.url, world.keys.publishable);
  sockets.push(socket);
  return socket;
}

test('a reader that stops skips broadcasts, is notified, and receives later ones after it has caught up', async () => {
  const [sender, slow, quick] = [await open(), await open(), await open()];
  const joinRef = await sender.join('stream', { broadcast: { ack: true } });
  await Promise.all([slow.join('stream', { presence: { enabled: true } }), quick.join('stream')]);
  const payload = { text: 'x'.repeat(200_000) };
  const warnings = (): unknown[] =>
    slow.of('system').filter((frame) => /too slow/.test(String(frame.payload['message'])));
  const present = (): unknown[] =>
    slow
      .of('presence_state')
      .map((frame) => Object.values(frame.payload).map((entry) => (entry as { metas: object[] }).metas[0]));
  // It is notified once per pause. After it has caught up, it gets the current presence.
  for (const [at, count] of [300, 150].entries()) {
    const before = [slow, quick].map((socket) => socket.of('broadcast').length);
    slow.ws.pause();
    // Three at once are not enough to make the fast reader slow.
    for (let n = 0; n < count; n += 3) {
      const refs = [1, 2, 3].map(() =>
        sender.push('realtime:stream', 'broadcast', { event: 'n', payload }, joinRef),
      );
      await sender.reply(refs[2]!);
    }
    await expect.poll(() => quick.of('broadcast').length - before[1]!).toBe(count);
    const track = { event: 'track', payload: { at } };
    await sender.reply(sender.push('realtime:stream', 'presence', track, joinRef));
    slow.ws.resume();
    await expect.poll(present).toHaveLength(at + 2);
    await slow.settle();
    expect(slow.of('broadcast').length - before[0]!).toBeLessThan(count);
    expect(warnings()).toHaveLength(at + 1);
  }
  expect(present()).toMatchObject([[], [{ at: 0 }], [{ at: 1 }]]);
  expect(slow.of('presence_diff')).toEqual([]);
  sender.push('realtime:stream', 'broadcast', { event: 'last', payload: {} }, joinRef);
  await slow.frame((frame) => frame.payload['event'] === 'last');
});

test('a slow reader receives all changes until its queue is full; then only its connection is closed', async () => {
  const [sender, quick] = [sockets[0]!, sockets[2]!];
  const admin = new pg.Client({ connectionString: world.databaseUrl });
  await admin.connect();
  sockets[1]!.close();
  const slow = await open();
  const asked = { postgres_changes: [{ event: 'INSERT', schema: 'public', table: 'rows' }] };
  const present = { presence: { enabled: true, key: 'slow' } };
  await quick.join('rows', { ...asked, ...present });
  const slowRef = await slow.join('rows', { ...asked, ...present });
  await slow.reply(slow.push('realtime:rows', 'presence', { event: 'track', payload: {} }, slowRef));
  const joinRef = await sender.join('rows', { broadcast: { ack: true } });
  const rows = (socket: RawSocket): unknown[] =>
    socket
      .of('postgres_changes')
      .map(({ payload }) => (payload['data'] as { record: { id: number } }).record.id);
  const insert = async (from: number, to: number): Promise<void> => {
    await admin.query(
      `insert into rows select n, repeat('x', 900000) from generate_series($1::int, $2::int) n`,
      [from, to],
    );
    await expect.poll(() => rows(quick).at(-1), { interval: 10 }).toBe(to);
  };
  slow.ws.pause();
  const text = 'x'.repeat(200_000);
  // More than the operating system buffers, so that broadcasts are skipped.
  for (let n = 0; n < 30; n++) {
    await sender.reply(
      sender.push('realtime:rows', 'broadcast', { event: 'n', payload: { n, text } }, joinRef),
    );
  }
  await insert(0, 0);
  slow.ws.resume();
  await expect.poll(() => rows(slow)).toEqual([0]);
  slow.ws.pause();
  // The reason can only be sent during the closing handshake.
  const ending = quick
    .frame(({ event, payload }) => event === 'presence_diff' && 'slow' in (payload['leaves'] as object))
    .then(() => slow.ws.resume());
  for (let from = 1; from < 28; from += 3) await insert(from, from + 2);
  await ending;
  await expect.poll(() => slow.closed).toEqual({ code: 1013, reason: 'The connection is too slow' });
  expect(rows(slow).length).toBeLessThan(28);
  expect(rows(quick)).toEqual(Array.from({ length: 28 }, (_, id) => id));
  sockets[1] = await open();
  await admin.end();
});

test('an instance without peers sends no notifications for its broadcasts, small or large', async () => {
  const listener = new pg.Client({ connectionString: world.databaseUrl });
  await listener.connect();
  const received: string[] = [];
  listener.on('notification', ({ channel }) => received.push(channel));
  for (let at = 0; at < 16; at++) await listener.query(`listen svc_rt_${at}`);
  const [sender, reader] = [sockets[0]!, sockets[2]!];
  const joinRef = await sender.join('alone');
  await reader.join('alone');
  for (const size of [10, 2_500_000]) {
    const payload = { x: 'x'.repeat(size) };
    sender.push('realtime:alone', 'broadcast', { event: 'x', payload }, joinRef);
  }
  await expect
    .poll(() => reader.of('broadcast').filter(({ topic }) => topic === 'realtime:alone').length)
    .toBe(2);
  const { rowCount } = await listener.query('select from realtime.overflow');
  expect([received, rowCount]).toEqual([[], 0]);
  await listener.end();
});

test('one large broadcast does not make a reader slow: later broadcasts arrive', async () => {
  const [sender, reader] = [sockets[0]!, sockets[2]!];
  const joinRef = await sender.join('large');
  await reader.join('large');
  const before = reader.of('broadcast').length;
  sender.push('realtime:large', 'broadcast', { event: 'x', payload: { x: 'x'.repeat(2_500_000) } }, joinRef);
  for (let n = 0; n < 20; n++) {
    sender.push('realtime:large', 'broadcast', { event: 'x', payload: { n } }, joinRef);
  }
  await expect.poll(() => reader.of('broadcast').length - before).toBe(21);
});

test('beyond the connection limit an upgrade gets 429; a free place can be used again', async () => {
  const fourth = await open();
  const status = async (): Promise<number> =>
    await new Promise((resolve) => {
      const ws = new WebSocket(
        `${world.url.replace(/^http/, 'ws')}/realtime/v1/websocket?apikey=${world.keys.publishable}&vsn=2.0.0`,
      );
      ws.on('error', () => {});
      ws.on('open', () => {
        ws.terminate();
        resolve(101);
      });
      ws.on('unexpected-response', (_request, response) => resolve(response.statusCode ?? 0));
    });
  expect(await status()).toBe(429);
  fourth.close();
  await expect.poll(status).toBe(101);
});

test('limits of a new file apply immediately, for sockets that stay open', async () => {
  const socket = sockets[0]!;
  const joinRef = await socket.join('limits');
  const text = YAML.replace('messages: 1000', 'messages: 1');
  const loaded = loadConfig({ name: 'svc.yaml', directory: undefined, text }, { variables: {} });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.mistakes));
  await world.backend.reload(loaded.config);
  for (let n = 0; n < 50; n++) {
    socket.push('realtime:limits', 'broadcast', { event: 'n', payload: { n } }, joinRef);
  }
  await socket.frame(({ event, joinRef: of }) => event === 'phx_close' && of === joinRef);
  expect(socket.of('system').at(-1)?.payload['message']).toBe('Too many messages per second');
  await socket.settle();
  expect(socket.closed).toBeUndefined();
});
