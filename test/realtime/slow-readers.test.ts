// Clients that read slowly, and a server that is full: what waits stays bounded, and others notice nothing.
import { WebSocket } from 'ws';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { RawSocket } from './raw-socket.ts';

const YAML = `
version: 1
project: { name: slow }
realtime: { limits: { messages: 1000, connections: 4 } }
tables: {}
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

test('a reader that stops loses broadcasts, is told, and gets what comes after it has caught up', async () => {
  const [sender, slow, quick] = [await open(), await open(), await open()];
  const joinRef = await sender.join('stream', { broadcast: { ack: true } });
  await Promise.all([slow.join('stream'), quick.join('stream')]);
  slow.ws.pause();
  const payload = { text: 'x'.repeat(200_000) };
  for (let n = 0; n < 300; n++) {
    await sender.reply(sender.push('realtime:stream', 'broadcast', { event: 'n', payload }, joinRef));
  }
  await expect.poll(() => quick.of('broadcast').length).toBe(300);
  slow.ws.resume();
  await slow.frame((frame) => frame.event === 'system' && /too slow/.test(String(frame.payload['message'])));
  await slow.settle();
  const had = slow.of('broadcast').length;
  expect(had).toBeLessThan(300);
  sender.push('realtime:stream', 'broadcast', { event: 'last', payload: {} }, joinRef);
  await slow.frame((frame) => frame.payload['event'] === 'last');
});

test('one large broadcast makes nobody slow: what follows arrives', async () => {
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

test('beyond the limit of connections an upgrade is answered 429; a place that is free is taken', async () => {
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
