// Broadcasts over HTTP from servers: accepted and rejected requests, and the receivers.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { RawSocket } from './raw-socket.ts';

const YAML = `
version: 1
project: { name: http }
tables: {}
realtime:
  rls:
    - { operations: [select], to: [authenticated], using: "true" }
    - { operations: [insert], to: [authenticated], with_check: "realtime.topic() = 'mine'" }
`;

let world: BackendWorld;
let token: string;
const sockets: RawSocket[] = [];

beforeAll(async () => {
  world = await startBackendWorld(YAML);
  token = await world.token({ role: 'authenticated', sub: '00000000-0000-4000-8000-00000000000a' });
});

afterEach(() => {
  for (const socket of sockets.splice(0)) socket.close();
});

afterAll(async () => {
  await world.close();
});

async function hears(topic: string, isPrivate = false): Promise<RawSocket> {
  const socket = await RawSocket.open(world.url, world.keys.publishable);
  sockets.push(socket);
  await socket.join(topic, { private: isPrivate }, isPrivate ? token : undefined);
  return socket;
}

type Answer = { readonly status: number; readonly body: string };

async function post(
  path: string,
  body: string | Buffer<ArrayBuffer>,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const response = await fetch(`${world.url}/realtime/v1/api/broadcast${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', apikey: world.keys.publishable, ...headers },
    body,
  });
  return { status: response.status, body: await response.text() };
}

const heard = (socket: RawSocket): unknown[] =>
  socket.of('broadcast').map(({ payload }) => [payload['event'], payload['payload']]);

const asUser = (): Record<string, string> => ({ authorization: `Bearer ${token}` });

test('one message: 202 with nothing, names with slashes, `persist` and `private` in the query', async () => {
  const [open, mine] = [await hears('a/b'), await hears('mine', true)];
  expect(await post('/a%2Fb/events/ev%2F1?persist=true', '{"n":1}')).toEqual({ status: 202, body: '' });
  expect(await post('/mine/events/x?private=true', '{"n":2}', asUser())).toMatchObject({ status: 202 });
  await expect.poll(() => heard(open)).toEqual([['ev/1', { n: 1 }]]);
  await expect.poll(() => heard(mine)).toEqual([['x', { n: 2 }]]);
});

test('bytes arrive as bytes, another type is refused', async () => {
  const socket = await hears('bytes');
  const bytes = Buffer.from([0, 255, 7]);
  const binary = { 'content-type': 'application/octet-stream' };
  expect(await post('/bytes/events/raw', bytes, binary)).toMatchObject({ status: 202 });
  await expect.poll(() => socket.binary.length).toBe(1);
  expect(socket.binary[0]?.subarray(-3)).toEqual(bytes);
  const refused = await post('/bytes/events/raw', 'hello', { 'content-type': 'text/plain' });
  expect([refused.status, JSON.parse(refused.body)]).toEqual([
    415,
    expect.objectContaining({ error: expect.stringContaining('text/plain') }),
  ]);
});

test('a private message that policies forbid: 403 if it is the only one, skipped among others', async () => {
  const [mine, theirs] = [await hears('mine', true), await hears('theirs', true)];
  expect(await post('/theirs/events/x?private=true', '{}', asUser())).toMatchObject({ status: 403 });
  expect(await post('/mine/events/x?private=true', '{}')).toMatchObject({ status: 403 });
  const message = (topic: string): object => ({ topic, event: 'x', payload: { topic }, private: true });
  const messages = [message('theirs'), message('mine')];
  expect(await post('', JSON.stringify({ messages }), asUser())).toEqual({ status: 202, body: '' });
  await expect.poll(() => heard(mine)).toEqual([['x', { topic: 'mine' }]]);
  await theirs.settle();
  expect(heard(theirs)).toEqual([]);
});

test('a topic whose name begins with `realtime:` differs from the name without the prefix', async () => {
  const [inner, outer] = [await hears('room'), await hears('realtime:room')];
  expect(await post('/realtime:room/events/one', '{}')).toMatchObject({ status: 202 });
  const messages = [{ topic: 'realtime:room', event: 'two', payload: {} }];
  expect(await post('', JSON.stringify({ messages }))).toMatchObject({ status: 202 });
  await expect
    .poll(() => heard(outer))
    .toEqual([
      ['one', {}],
      ['two', {}],
    ]);
  await inner.settle();
  expect(heard(inner)).toEqual([]);
});

test('without a key, or with an invalid key: 401 with a message', async () => {
  for (const headers of [{ apikey: '' }, { apikey: 'zzz' }, { authorization: 'Bearer a.b.c' }]) {
    const { status, body } = await post('/a/events/b', '{}', headers);
    expect([status, JSON.parse(body)]).toEqual([
      401,
      expect.objectContaining({ message: expect.any(String) }),
    ]);
  }
});

const DEEP = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;

test.each([
  ['no JSON', '{'],
  ['no list', '{"messages":{}}'],
  ['no topic', '{"messages":[{"event":"x"}]}'],
  ['a topic that is too long', JSON.stringify({ messages: [{ topic: 'x'.repeat(300), event: 'x' }] })],
  ['no event', '{"messages":[{"topic":"x","event":7}]}'],
  ['a payload without end', `{"messages":[{"topic":"x","event":"x","payload":${DEEP}}]}`],
])('%s: 422 with the reason', async (_what, body) => {
  const { status, body: text } = await post('', body);
  expect([status, JSON.parse(text)]).toEqual([
    422,
    expect.objectContaining({ errors: { message: [expect.any(String)] } }),
  ]);
});

test('a payload that is too large, and messages that come too fast', async () => {
  const large = JSON.stringify({ x: 'x'.repeat(3_200_000) });
  expect((await post('/a/events/b', large)).status).toBe(413);
  const messages = Array.from({ length: 2_000 }, () => ({ topic: 'x', event: 'x', payload: {} }));
  expect(await post('', JSON.stringify({ messages }))).toMatchObject({ status: 429 });
});

test('messages that come too fast use up the limit of their caller, and of no other', async () => {
  const messages = Array.from({ length: 2_000 }, () => ({ topic: 'x', event: 'x', payload: {} }));
  const body = JSON.stringify({ messages: messages.slice(0, 1) });
  expect(await post('', JSON.stringify({ messages }))).toMatchObject({ status: 429 });
  expect(await post('', body, { apikey: world.keys.secret })).toMatchObject({ status: 202 });
  expect(await post('', body, asUser())).toMatchObject({ status: 202 });
});
