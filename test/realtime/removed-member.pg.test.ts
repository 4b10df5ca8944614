// A member who is removed from a room receives and sends nothing in its private channel a second later at the latest:
// at every instance, with continuous messages or with a first message after a long time.
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { startBackend, type Backend } from '../../src/server/backend.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { RawSocket } from './raw-socket.ts';
import { scaled } from '../support/run/scaled.ts';

const YAML = `
version: 1
project: { name: removed }
realtime: { limits: { messages: 1000 } }
tables:
  members:
    rls: []
    fields:
      - { name: room, type: text, primary_key: true }
      - { name: user_id, type: uuid, primary_key: true }
`;

/** The membership is behind a function, so only evaluation shows what the policy depends on. */
const POLICIES = `
create function is_member(room text) returns boolean language sql stable security definer set search_path = '' as $$
  select exists (select from public.members m where m.user_id = auth.uid() and m.room = $1) $$;
create policy members on realtime.messages to authenticated
  using (public.is_member(realtime.topic())) with check (public.is_member(realtime.topic()));
`;

const PROMISED_MS = 1_000;
const PRIVATE = { private: true, presence: { enabled: true }, broadcast: { ack: true } };

let world: BackendWorld;
let peer: Backend;
let admin: pg.Client;
const sockets: RawSocket[] = [];
const ann = { id: '00000000-0000-4000-8000-00000000000a', token: '' };
const ben = { id: '00000000-0000-4000-8000-00000000000b', token: '' };

beforeAll(async () => {
  world = await startBackendWorld(YAML);
  peer = await startBackend({ ...world.options, port: 0 });
  admin = new pg.Client({ connectionString: world.databaseUrl });
  await admin.connect();
  await admin.query(POLICIES);
  for (const user of [ann, ben]) user.token = await world.token({ role: 'authenticated', sub: user.id });
});

afterEach(() => {
  for (const socket of sockets.splice(0)) socket.close();
});

afterAll(async () => {
  await peer.stop();
  await admin.end();
  await world.close();
});

type Joined = { readonly socket: RawSocket; readonly joinRef: string; readonly topic: string };

async function inside(room: string, url: string, { id, token }: typeof ann): Promise<Joined> {
  await admin.query('insert into members values ($1, $2) on conflict do nothing', [room, id]);
  const socket = await RawSocket.open(url, world.keys.publishable);
  sockets.push(socket);
  const joinRef = await socket.join(room, PRIVATE, token);
  return { socket, joinRef, topic: `realtime:${room}` };
}

const sendMessage = ({ socket, joinRef, topic }: Joined, n: number): string =>
  socket.push(topic, 'broadcast', { type: 'broadcast', event: 'n', payload: { n } }, joinRef);

const numbers = ({ socket }: Joined): unknown[] =>
  socket.of('broadcast').map(({ payload }) => (payload['payload'] as { n: number }).n);

async function remove(room: string, { id }: typeof ann): Promise<void> {
  await admin.query('delete from members where room = $1 and user_id = $2', [room, id]);
}

const closed = async ({ socket, joinRef }: Joined): Promise<unknown> =>
  await socket.frame((frame) => frame.event === 'phx_close' && frame.joinRef === joinRef);

test.each([
  ['at the same instance', () => world.url],
  ['at another instance', () => peer.url],
])('during constant messages: %s', async (_where, url) => {
  const room = `busy ${url()}`;
  const speaker = await inside(room, world.url, ann);
  const [leaves, stays] = [await inside(room, url(), ben), await inside(room, url(), ann)];
  let n = 0;
  const sentAt: number[] = [];
  const talking = setInterval(() => {
    sentAt[n] = performance.now();
    sendMessage(speaker, n++);
  }, 20);
  await expect.poll(() => numbers(leaves).length).toBeGreaterThan(50);
  await remove(room, ben);
  const removedAt = performance.now();
  await closed(leaves);
  const until = n + 20;
  await expect.poll(() => n).toBeGreaterThan(until);
  clearInterval(talking);
  const last = sentAt[Number(numbers(leaves).at(-1))] ?? 0;
  // The documented limit on a machine that is not overloaded.
  expect(last - removedAt).toBeLessThan(scaled(PROMISED_MS));
  expect(leaves.socket.of('system').at(-1)?.payload['message']).toMatch(/no longer have permission/);
  await expect.poll(() => numbers(stays).at(-1)).toBe(n - 1);
  expect(numbers(stays)).toEqual(Array.from({ length: n }, (_, at) => at));
});

test('a removed member does not receive the first message after a long silence, nor presence', async () => {
  const speaker = await inside('quiet', peer.url, ann);
  const leaves = await inside('quiet', world.url, ben);
  await remove('quiet', ben);
  const removedAt = performance.now();
  await expect.poll(() => performance.now() - removedAt).toBeGreaterThan(PROMISED_MS);
  const before = leaves.socket.of('presence_diff').length;
  speaker.socket.push(speaker.topic, 'presence', { event: 'track', payload: {} }, speaker.joinRef);
  sendMessage(speaker, 1);
  await closed(leaves);
  await leaves.socket.settle();
  expect(numbers(leaves)).toEqual([]);
  expect(leaves.socket.of('presence_diff')).toHaveLength(before);
});

test('a removed member cannot send, and cannot join again with the same token', async () => {
  const hears = await inside('sending', world.url, ann);
  const leaves = await inside('sending', world.url, ben);
  expect(await leaves.socket.reply(sendMessage(leaves, 1))).toMatchObject({ status: 'ok' });
  await remove('sending', ben);
  const removedAt = performance.now();
  await expect.poll(() => performance.now() - removedAt).toBeGreaterThan(PROMISED_MS);
  expect(await leaves.socket.reply(sendMessage(leaves, 2))).toMatchObject({ status: 'error' });
  const again = leaves.socket.push(leaves.topic, 'phx_join', { config: PRIVATE, access_token: ben.token });
  expect(await leaves.socket.reply(again)).toMatchObject({ status: 'error' });
  await hears.socket.settle();
  expect(numbers(hears)).toEqual([1]);
});

test('messages after a silence keep their order, and a slow database removes no member', async () => {
  const speaker = await inside('slow', world.url, ann);
  const member = await inside('slow', peer.url, ben);
  const joinedAt = performance.now();
  await expect.poll(() => performance.now() - joinedAt).toBeGreaterThan(PROMISED_MS);
  // The speaker's right to send is checked at the first message, before the table is locked.
  await speaker.socket.reply(sendMessage(speaker, 0));
  await expect.poll(() => numbers(member)).toEqual([0]);
  await expect.poll(() => performance.now() - joinedAt).toBeGreaterThan(3 * PROMISED_MS);
  const service = await RawSocket.open(world.url, world.keys.secret);
  sockets.push(service);
  const secret = { socket: service, joinRef: await service.join('slow', PRIVATE), topic: 'realtime:slow' };
  await admin.query('begin');
  await admin.query('lock table members in access exclusive mode');
  for (let n = 1; n <= 30; n++) sendMessage(secret, n);
  await expect.poll(() => numbers(member).length).toBe(31);
  await admin.query('rollback');
  expect(numbers(member)).toEqual(Array.from({ length: 31 }, (_, at) => at));
});
