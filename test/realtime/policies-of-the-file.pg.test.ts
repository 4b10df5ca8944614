// `realtime.rls` of svc.yaml: the policies of the file decide which callers receive and send, also after the file has
// changed.
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { RawSocket } from './raw-socket.ts';

const member = (more = ''): string =>
  `exists (select from members m where m.user_id = auth.uid()${more} and 'room:' || m.room = realtime.topic())`;

const file = (...rls: string[]): string => `
version: 1
project: { name: rooms }
tables:
  members:
    realtime: true
    rls:
      - { operations: [select], using: user_id = auth.uid() }
    fields:
      - { name: room, type: text, primary_key: true }
      - { name: user_id, type: uuid, primary_key: true }
      - { name: writes, type: boolean, required: true, default: true }
realtime:
  private_only: false
${rls.length === 0 ? '' : `  rls:\n${rls.map((policy) => `    - ${policy}\n`).join('')}`}`;

const MEMBERS = [
  `{ operations: [select], to: authenticated, using: "${member()}" }`,
  `{ operations: [insert], to: authenticated, with_check: "${member(' and m.writes')}" }`,
  `{ operations: [insert], type: restrictive, with_check: "extension = 'broadcast'" }`,
];
const PRIVATE = { private: true, broadcast: { ack: true } };

let world: BackendWorld;
let admin: pg.Client;
const ann = { id: '00000000-0000-4000-8000-00000000000a', token: '' };
const ben = { id: '00000000-0000-4000-8000-00000000000b', token: '' };
const sockets: RawSocket[] = [];

beforeAll(async () => {
  world = await startBackendWorld(file(...MEMBERS));
  admin = new pg.Client({ connectionString: world.databaseUrl });
  await admin.connect();
  await admin.query(`insert into members values ('red', $1, true), ('red', $2, false)`, [ann.id, ben.id]);
  for (const user of [ann, ben]) user.token = await world.token({ role: 'authenticated', sub: user.id });
});
afterAll(async () => {
  for (const socket of sockets) socket.close();
  await admin?.end();
  await world?.close();
});

async function open(): Promise<RawSocket> {
  const socket = await RawSocket.open(world.url, world.keys.publishable);
  sockets.push(socket);
  return socket;
}

async function refusal(topic: string, token?: string): Promise<unknown> {
  const socket = await open();
  const ref = socket.push(`realtime:${topic}`, 'phx_join', { config: PRIVATE, access_token: token });
  return (await socket.reply(ref)).response['reason'];
}

async function serve(text: string): Promise<void> {
  const loaded = loadConfig({ name: 'svc.yaml', directory: undefined, text }, { variables: {} });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.mistakes));
  await world.backend.reload(loaded.config);
}

test('a policy on the topic opens only that room, and only for its role', async () => {
  await (await open()).join('room:red', PRIVATE, ben.token);
  expect(await refusal('room:blue', ben.token)).toMatch(/You do not have permissions to read/);
  expect(await refusal('room:red')).toMatch(/You do not have permissions to read/);
});

test('a reader receives and cannot send; a restrictive policy applies as well', async () => {
  const [reader, writer] = await Promise.all([open(), open()]);
  const reads = await reader.join('room:red', PRIVATE, ben.token);
  const writes = await writer.join('room:red', { ...PRIVATE, presence: { enabled: true } }, ann.token);
  const denied = reader.push('realtime:room:red', 'broadcast', { event: 'x', payload: {} }, reads);
  expect(await reader.reply(denied)).toEqual({ status: 'error', response: { reason: 'Unauthorized' } });
  const sent = writer.push('realtime:room:red', 'broadcast', { event: 'y', payload: {} }, writes);
  expect(await writer.reply(sent)).toMatchObject({ status: 'ok' });
  await reader.frame((frame) => frame.event === 'broadcast');
  const track = writer.push('realtime:room:red', 'presence', { event: 'track', payload: { a: 1 } }, writes);
  expect(await writer.reply(track)).toEqual({ status: 'error', response: { reason: 'Unauthorized' } });
});

test('a file without the policies closes the open channel and rejects joins', async () => {
  const socket = await open();
  const joinRef = await socket.join('room:red', PRIVATE, ann.token);
  await serve(file());
  await socket.frame((frame) => frame.event === 'phx_close' && frame.joinRef === joinRef);
  expect(socket.of('system').at(-1)?.payload).toMatchObject({
    status: 'error',
    message: 'You no longer have permission to read from this Channel topic: room:red',
  });
  expect(await refusal('room:red', ann.token)).toMatch(/You do not have permissions to read/);
  // The first file would count as an older one.
  await serve(file(...MEMBERS, `{ operations: [select], using: "topic = 'news'" }`));
  await (await open()).join('room:red', PRIVATE, ann.token);
  await (await open()).join('news', PRIVATE);
});

test('the table that the file publishes is a member of the publication', async () => {
  const { rows } = await admin.query(
    `select tablename as name from pg_publication_tables where pubname = 'svc_realtime' order by 1`,
  );
  expect(rows).toEqual([{ name: 'members' }, { name: 'messages' }]);
});
