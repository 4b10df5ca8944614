// Frames that no client library sends, in both versions of the protocol.
import { once } from 'node:events';
import { WebSocket } from 'ws';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { RawSocket, userBroadcast } from './raw-socket.ts';

const YAML = `
version: 1
project: { name: frames }
realtime: { limits: { joins: 1000 } }
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

async function open(version: 1 | 2 = 2): Promise<RawSocket> {
  const socket = await RawSocket.open(world.url, world.keys.publishable, { version });
  sockets.push(socket);
  return socket;
}

/** The HTTP response to a rejected upgrade. */
async function refusal(path: string): Promise<{ status: number; body: Record<string, unknown> }> {
  const ws = new WebSocket(`${world.url.replace(/^http/, 'ws')}${path}`);
  ws.on('error', () => {});
  return await new Promise((resolve) => {
    ws.on('unexpected-response', (_request, response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk.toString()));
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) as Record<string, unknown> }),
      );
    });
  });
}

test('an upgrade without a key, with a wrong one or of an unknown version is answered in HTTP', async () => {
  const [noKey, badKey, version] = await Promise.all([
    refusal('/realtime/v1/websocket?vsn=2.0.0'),
    refusal('/realtime/v1/websocket?apikey=zzz&vsn=2.0.0'),
    refusal(`/realtime/v1/websocket?apikey=${world.keys.publishable}&vsn=3.0.0`),
  ]);
  expect(noKey.status).toBe(401);
  expect(noKey.body['error']).toBe('No API key found in request');
  expect(badKey.status).toBe(401);
  expect(version.status).toBe(400);
});

test('an upgrade on any other path is an ordinary request', async () => {
  expect((await refusal('/realtime/v1/other')).status).toBe(404);
  expect((await refusal(`/rest/v1/x?apikey=${world.keys.publishable}`)).status).toBe(404);
  expect((await refusal('/ready/x')).status).toBe(404);
});

test('version 1 uses objects, version 2 arrays', async () => {
  const [one, two] = await Promise.all([open(1), open(2)]);
  const first = await one.reply(one.push('phoenix', 'heartbeat'));
  expect(first).toEqual({ status: 'ok', response: {} });
  const ref = two.push('phoenix', 'heartbeat');
  const frame = await two.frame((answer) => answer.ref === ref);
  expect(frame.topic).toBe('phoenix');
  const answer = async (socket: RawSocket): Promise<unknown> => {
    const next = once(socket.ws, 'message') as Promise<[Buffer]>;
    socket.pushAs('realtime:versions', 'phx_join', { config: {} }, '70', '71');
    return JSON.parse((await next)[0].toString()) as unknown;
  };
  const [topic, event] = ['realtime:versions', 'phx_reply'];
  const payload = { status: 'ok', response: { postgres_changes: [] } };
  expect(await answer(one)).toEqual({ topic, event, payload, ref: '71' });
  expect(await answer(two)).toEqual(['70', '71', topic, event, payload]);
});

test('a socket without vsn uses version 1', async () => {
  const ws = new WebSocket(
    `${world.url.replace(/^http/, 'ws')}/realtime/v1/websocket?apikey=${world.keys.publishable}`,
  );
  const socket = new RawSocket(ws, 1);
  sockets.push(socket);
  await new Promise((resolve) => ws.on('open', resolve));
  await socket.join('room');
});

test('bindings are repeated as they were sent, with their ids', async () => {
  const socket = await open();
  const asked = [
    { event: 'Insert', schema: 'public', table: 'nothing' },
    { event: '*', schema: 'public', filter: null },
  ];
  const ref = socket.push('realtime:echo', 'phx_join', { config: { postgres_changes: asked } });
  const { status, response } = await socket.reply(ref);
  expect(status).toBe('ok');
  const answered = response['postgres_changes'] as Array<Record<string, unknown>>;
  expect(answered).toMatchObject(asked);
  const ids = answered.map(({ id }) => id);
  expect(ids.every((id) => typeof id === 'number' && id !== 0)).toBe(true);
  expect(new Set(ids).size).toBe(ids.length);
});

test('a topic without a name is refused', async () => {
  const socket = await open();
  const { status, response } = await socket.reply(socket.push('realtime:', 'phx_join', { config: {} }));
  expect(status).toBe('error');
  expect(response['reason']).toMatch(/^TopicNameRequired/);
});

test('a key in place of a token is accepted; an invalid or expired token is rejected with a reason', async () => {
  const socket = await open();
  await socket.join('with-key', {}, world.keys.publishable);
  const join = async (token: string): Promise<unknown> => {
    const ref = socket.push('realtime:tokens', 'phx_join', { config: {}, access_token: token });
    return (await socket.reply(ref)).response['reason'];
  };
  expect(await join('nonsense')).toMatch(/^MalformedJWT/);
  const seconds = Math.floor(Date.now() / 1000);
  expect(await join(await world.token({ role: 'authenticated', exp: seconds - 600 }))).toMatch(
    /^InvalidJWTToken/,
  );
  expect(await join(await world.token({ role: 'authenticated', exp: null }))).toMatch(/^InvalidJWTToken/);
});

test('a second join of a topic closes the first', async () => {
  const socket = await open();
  const first = await socket.join('twice');
  const second = await socket.join('twice');
  const closed = await socket.frame((frame) => frame.event === 'phx_close');
  expect([closed.joinRef, closed.ref]).toEqual([first, first]);
  const otherSocket = await open();
  await otherSocket.join('twice');
  otherSocket.push('realtime:twice', 'broadcast', { type: 'broadcast', event: 'x', payload: {} });
  await socket.frame((frame) => frame.event === 'broadcast');
  expect(socket.of('broadcast')).toHaveLength(1);
  expect(second).not.toBe(first);
});

test('a message of a topic that is not joined is refused; an event that no channel knows is not answered', async () => {
  const socket = await open();
  const unjoined = socket.push('realtime:nowhere', 'broadcast', { type: 'broadcast', event: 'x' });
  expect(await socket.reply(unjoined)).toEqual({
    status: 'error',
    response: { reason: 'unmatched topic' },
  });
  const joinRef = await socket.join('known');
  const unknown = socket.push('realtime:known', 'dance', {}, joinRef);
  await socket.settle();
  expect(socket.frames.some(({ ref }) => ref === unknown)).toBe(false);
});

test('leaving gets a reply and closes the channel', async () => {
  const socket = await open();
  const joinRef = await socket.join('leaving');
  const ref = socket.push('realtime:leaving', 'phx_leave', {}, joinRef);
  expect(await socket.reply(ref)).toEqual({ status: 'ok', response: {} });
  await socket.frame((frame) => frame.event === 'phx_close' && frame.joinRef === joinRef);
});

test('booleans may be words', async () => {
  const socket = await open();
  const ref = socket.push('realtime:words', 'phx_join', { config: { private: 'true' } });
  expect((await socket.reply(ref)).response['reason']).toMatch(/^Unauthorized/);
});

test('a binary broadcast of JSON reaches both versions as JSON', async () => {
  const [sender, one, two] = await Promise.all([open(2), open(1), open(2)]);
  await Promise.all([sender.join('mixed'), one.join('mixed'), two.join('mixed')]);
  sender.ws.send(userBroadcast('realtime:mixed', 'hé', Buffer.from('{"n":1}')));
  for (const socket of [one, two]) {
    const { payload, topic } = await socket.frame((frame) => frame.event === 'broadcast');
    expect(topic).toBe('realtime:mixed');
    expect(payload).toEqual({ type: 'broadcast', event: 'hé', payload: { n: 1 } });
  }
  await sender.settle();
  expect(sender.of('broadcast')).toHaveLength(0);
});

test('the header of an older client, in Latin-1, is decoded', async () => {
  const [sender, receiver] = await Promise.all([open(2), open(2)]);
  await Promise.all([sender.join('latin'), receiver.join('latin')]);
  sender.ws.send(userBroadcast('realtime:latin', 'hé', Buffer.from('1'), { text: 'latin1' }));
  const { payload } = await receiver.frame((frame) => frame.event === 'broadcast');
  expect(payload['event']).toBe('hé');
});

test('bytes reach version 2 as bytes, and version 1 not at all', async () => {
  const [sender, one, two] = await Promise.all([open(2), open(1), open(2)]);
  await Promise.all([sender.join('raw'), one.join('raw'), two.join('raw')]);
  const bytes = Buffer.from([0, 255, 1, 254]);
  sender.ws.send(userBroadcast('realtime:raw', 'bytes', bytes, { encoding: 0 }));
  await expect.poll(() => two.binary.length).toBe(1);
  const [kind, topic = 0, event = 0, meta = 0, encoding] = two.binary[0]!;
  expect([kind, meta, encoding]).toEqual([4, 0, 0]);
  expect(two.binary[0]!.subarray(5, 5 + topic).toString()).toBe('realtime:raw');
  expect(two.binary[0]!.subarray(5 + topic + event)).toEqual(bytes);
  await one.settle();
  expect(one.of('broadcast')).toHaveLength(0);
});

test('an unreadable frame closes the socket', async () => {
  const broken: Array<[string, string | Buffer]> = [
    ['no JSON', 'hello'],
    ['no message', '[1,2]'],
    ['an unknown kind', Buffer.from([0, 1, 2, 3, 4, 5, 6, 7])],
    ['lengths beyond the end', Buffer.from([3, 200, 200, 200, 200, 200, 1])],
    ['a payload that is not JSON', userBroadcast('realtime:x', 'x', Buffer.from('{'))],
  ];
  for (const [what, frame] of broken) {
    const socket = await open();
    socket.ws.send(frame);
    await expect.poll(() => socket.closed?.code, { message: what }).toBe(1003);
  }
});

test('a frame of more than 5 MB closes the socket', async () => {
  const socket = await open();
  socket.ws.send(Buffer.alloc(6_000_000, 'x'));
  await expect.poll(() => socket.closed?.code).toBe(1009);
});

test('a payload that is too large is rejected with a reply to clients that use acks', async () => {
  const socket = await open();
  const joinRef = await socket.join('large', { broadcast: { ack: true } });
  const text = JSON.stringify({ x: 'x'.repeat(4_000_000) });
  const frame = userBroadcast('realtime:large', 'x', Buffer.from(text), { joinRef, ref: '99' });
  socket.ws.send(frame);
  expect(await socket.reply('99')).toMatchObject({ status: 'error' });
});

test('every payload is an object', async () => {
  const [one, two] = await Promise.all([open(), open()]);
  const config = { presence: { enabled: true, key: 'a' }, broadcast: { ack: true, self: true } };
  const joinRef = await one.join('objects', config);
  await two.join('objects', config);
  one.push('realtime:objects', 'presence', { type: 'presence', event: 'track', payload: { a: 1 } }, joinRef);
  one.push('realtime:objects', 'broadcast', { type: 'broadcast', event: 'x', payload: null }, joinRef);
  one.push('realtime:objects', 'presence', { type: 'presence', event: 'untrack' }, joinRef);
  one.push('realtime:objects', 'phx_leave', {}, joinRef);
  await one.frame((frame) => frame.event === 'phx_close');
  await two.settle();
  for (const { payload, event } of [...one.frames, ...two.frames]) {
    expect(typeof payload === 'object' && payload !== null && !Array.isArray(payload), event).toBe(true);
  }
});

test('a broadcast without ack gets no reply', async () => {
  const [sender, receiver] = await Promise.all([open(), open()]);
  const joinRef = await sender.join('quiet', { broadcast: { ack: false } });
  await receiver.join('quiet');
  const message = { type: 'broadcast', event: 'x', payload: {} };
  const ref = sender.push('realtime:quiet', 'broadcast', message, joinRef);
  await receiver.frame(({ event }) => event === 'broadcast');
  await sender.settle();
  expect(sender.frames.filter((frame) => frame.ref === ref)).toEqual([]);
});

test('a join with presence gets the state, also an empty one; a join without presence does not', async () => {
  const socket = await open();
  await socket.join('empty', { presence: { enabled: true } });
  await socket.join('uninterested', { presence: { enabled: false } });
  await socket.settle();
  const states = socket.of('presence_state').map(({ topic, payload }) => [topic, payload]);
  expect(states).toEqual([['realtime:empty', {}]]);
});

test('a client that tracks without presence gets the state first, then the changes', async () => {
  const [early, late] = await Promise.all([open(), open()]);
  const earlyRef = await early.join('trackers', { presence: { key: 'early', enabled: true } });
  const track = (socket: RawSocket, joinRef: string): string =>
    socket.push('realtime:trackers', 'presence', { event: 'track', payload: { a: 1 } }, joinRef);
  await early.reply(track(early, earlyRef));
  const lateRef = await late.join('trackers', { presence: { key: 'late', enabled: false } });
  await late.reply(track(late, lateRef));
  const { payload } = await late.frame(({ event }) => event === 'presence_state');
  expect(Object.keys(payload)).toEqual(['early']);
  const { payload: diff } = await late.frame(({ event }) => event === 'presence_diff');
  expect(diff).toMatchObject({ joins: { late: { metas: [{ a: 1 }] } }, leaves: {} });
  const order = late.frames.map(({ event }) => event).filter((event) => event.startsWith('p'));
  expect(order).toEqual(['phx_reply', 'phx_reply', 'presence_state', 'presence_diff']);
});

test('a client that tracks again has one entry, and the change names the previous one', async () => {
  const [member, watcher] = await Promise.all([open(), open()]);
  await watcher.join('again', { presence: { enabled: true } });
  const joinRef = await member.join('again', { presence: { key: 'ann', enabled: true } });
  for (const a of [1, 2]) {
    const track = { event: 'track', payload: { a } };
    await member.reply(member.push('realtime:again', 'presence', track, joinRef));
  }
  await expect.poll(() => watcher.of('presence_diff').length).toBe(2);
  const [first, second] = watcher.of('presence_diff').map(({ payload }) => payload);
  const before = { a: 1, phx_ref: expect.stringMatching(/./) as string };
  expect(first).toEqual({ joins: { ann: { metas: [before] } }, leaves: {} });
  const { phx_ref: ref } = (first as { joins: { ann: { metas: [{ phx_ref: string }] } } }).joins.ann.metas[0];
  expect(second).toEqual({
    joins: {
      ann: { metas: [{ a: 2, phx_ref: expect.not.stringMatching(`^${ref}$`) as string, phx_ref_prev: ref }] },
    },
    leaves: { ann: { metas: [{ a: 1, phx_ref: ref }] } },
  });
  const late = await open();
  await late.join('again', { presence: { enabled: true } });
  const { payload } = await late.frame(({ event }) => event === 'presence_state');
  expect(payload).toMatchObject({ ann: { metas: [{ a: 2 }] } });
  expect((payload['ann'] as { metas: unknown[] }).metas).toHaveLength(1);
});

test('a client that disappears leaves presence', async () => {
  const [member, watcher] = await Promise.all([open(), open()]);
  await watcher.join('dying', { presence: { enabled: true } });
  const joinRef = await member.join('dying', { presence: { key: 'ann', enabled: true } });
  await member.reply(
    member.push('realtime:dying', 'presence', { event: 'track', payload: { a: 1 } }, joinRef),
  );
  await expect.poll(() => watcher.of('presence_diff').length).toBe(1);
  member.ws.terminate();
  await expect.poll(() => watcher.of('presence_diff').length).toBe(2);
  expect(watcher.of('presence_diff')[1]?.payload).toMatchObject({
    joins: {},
    leaves: { ann: { metas: [{ a: 1 }] } },
  });
  const late = await open();
  await late.join('dying', { presence: { enabled: true } });
  const { payload } = await late.frame(({ event }) => event === 'presence_state');
  expect(payload).toEqual({});
});

test('a client with `replication_ready` is notified when messages of statements can be delivered', async () => {
  const socket = await open();
  await socket.join('ready', { broadcast: { replication_ready: true } });
  const { payload } = await socket.frame(({ event }) => event === 'system');
  expect(payload).toMatchObject({ status: 'ok', message: 'Replication connection established' });
});

test('with the 101st channel a socket is full, until one is left', async () => {
  const socket = await open();
  for (let at = 0; at < 100; at++) socket.push(`realtime:many-${at}`, 'phx_join', { config: {} });
  await expect.poll(() => socket.of('phx_reply').length).toBe(100);
  expect(socket.of('phx_reply').every(({ payload }) => payload['status'] === 'ok')).toBe(true);
  const full = await socket.reply(socket.push('realtime:one-more', 'phx_join', { config: {} }));
  expect(full).toEqual({
    status: 'error',
    response: { reason: 'ChannelRateLimitReached: Too many channels' },
  });
  await socket.reply(socket.push('realtime:many-0', 'phx_leave'));
  for (;;) {
    const answer = await socket.reply(socket.push('realtime:one-more', 'phx_join', { config: {} }));
    // This is the number of joins that a socket may send at once.
    if (String(answer.response['reason']).startsWith('ClientJoinRateLimitReached')) continue;
    expect(answer).toMatchObject({ status: 'ok' });
    break;
  }
});

test('a flood closes its channel with a reason; other channels stay open', async () => {
  const [flood, calm, listener] = await Promise.all([open(), open(), open()]);
  const joinRef = await flood.join('flood');
  await Promise.all([calm.join('calm'), listener.join('calm')]);
  for (let at = 0; at < 1_000; at++) {
    flood.push('realtime:flood', 'broadcast', { type: 'broadcast', event: 'x', payload: { at } }, joinRef);
  }
  calm.push('realtime:calm', 'broadcast', { type: 'broadcast', event: 'x', payload: {} });
  const told = await flood.frame((frame) => frame.event === 'system');
  expect(told.payload).toMatchObject({ status: 'error', message: 'Too many messages per second' });
  await flood.frame((frame) => frame.event === 'phx_close' && frame.joinRef === joinRef);
  await listener.frame((frame) => frame.event === 'broadcast');
});
