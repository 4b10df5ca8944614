import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AddressList } from '../lib/ip-address.ts';
import { WebSocket, WebSocketServer } from 'ws';
import { asksForSocket, Front, type FrontTarget } from './front.ts';

const front = new Front();
let trusted = new AddressList([]);
const release = createServer((request, response) => response.end(JSON.stringify(request.headers)));
const target = (): FrontTarget => {
  const { port } = release.address() as AddressInfo;
  return { port, secret: 'the secret', trusted };
};
const receiver = createServer({ shouldUpgradeCallback: asksForSocket }, (request, response) =>
  front.pass(request, response, target()),
);
receiver.on('upgrade', (request, socket, head) => front.passSocket(request, socket, head, target()));
const sockets = new WebSocketServer({ server: release, path: '/sockets' });

beforeAll(async () => {
  for (const server of [release, receiver]) {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  }
});
afterAll(() => {
  front.close();
  for (const server of [release, receiver]) {
    server.closeAllConnections();
    server.close();
  }
});

async function told(headers: Readonly<Record<string, string>>): Promise<IncomingHttpHeaders> {
  const { port } = receiver.address() as AddressInfo;
  return (await (await fetch(`http://127.0.0.1:${port}/`, { headers })).json()) as IncomingHttpHeaders;
}

test('an unknown peer may add to X-Forwarded-For and nothing else', async () => {
  trusted = new AddressList([]);
  const sent = {
    forwarded: 'for=8.8.8.8;proto=https',
    'x-forwarded-proto': 'https',
    'x-svc-front': 'guessed',
  };
  expect(await told({ ...sent, 'x-forwarded-for': '8.8.8.8' })).toMatchObject({
    'x-forwarded-for': '8.8.8.8, 127.0.0.1',
    'x-forwarded-proto': 'http',
    'x-svc-front': 'the secret',
  });
  expect(await told(sent)).toMatchObject({ 'x-forwarded-for': '127.0.0.1' });
  expect(await told(sent)).not.toHaveProperty('forwarded');
});

test('the headers of a trusted proxy are kept', async () => {
  trusted = new AddressList(['loopback']);
  expect(await told({ 'x-forwarded-for': '192.0.2.1', 'x-forwarded-proto': 'https' })).toMatchObject({
    'x-forwarded-for': '192.0.2.1, 127.0.0.1',
    'x-forwarded-proto': 'https',
  });
  const speaksForwarded = await told({ forwarded: 'for=192.0.2.1;proto=https' });
  expect(speaksForwarded).toMatchObject({ forwarded: 'for=192.0.2.1;proto=https, for="127.0.0.1"' });
  expect(speaksForwarded).not.toHaveProperty('x-forwarded-for');
});

test('a health check in HTTP/1.0, which names no host, is answered', async () => {
  const { port } = receiver.address() as AddressInfo;
  const socket = connect(port, '127.0.0.1');
  // HAProxy sends this request by default.
  socket.write('GET /ready HTTP/1.0\r\n\r\n');
  expect(await text(socket)).toMatch(/^HTTP\/1\.1 200 /);
});

test('a socket goes through with the name of its client, and a refusal as it was given', async () => {
  trusted = new AddressList([]);
  sockets.once('connection', (socket, request) => {
    socket.send(JSON.stringify(request.headers));
    socket.on('message', (data: Buffer) => socket.send(`received ${data.toString()}`));
  });
  const { port } = receiver.address() as AddressInfo;
  const socket = new WebSocket(`ws://127.0.0.1:${port}/sockets`);
  const heard: string[] = [];
  socket.on('message', (data: Buffer) => heard.push(data.toString()));
  await once(socket, 'open');
  socket.send('hello');
  await expect.poll(() => heard).toHaveLength(2);
  expect(JSON.parse(heard[0] ?? '')).toMatchObject({
    'x-forwarded-for': '127.0.0.1',
    'x-svc-front': 'the secret',
  });
  expect(heard[1]).toBe('received hello');
  socket.close(1000);
  await once(socket, 'close');
  const refused = new WebSocket(`ws://127.0.0.1:${port}/elsewhere`);
  refused.on('error', () => {});
  const [, response] = (await once(refused, 'unexpected-response')) as [unknown, { statusCode: number }];
  expect(response.statusCode).toBe(400);
});
