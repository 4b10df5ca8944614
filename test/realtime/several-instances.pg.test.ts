// Two instances on one database: messages and presence are shared, and nothing remains of an instance that has ended.
import { createClient, type RealtimeChannel, type SupabaseClient } from '@supabase/supabase-js';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { freePort } from '../../src/lib/free-port.ts';
import { startBackend, type Backend } from '../../src/server/backend.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { RawSocket } from './raw-socket.ts';

const YAML = `
version: 1
project: { name: two }
tables:
  rows:
    realtime: true
    rls: false
    fields: [{ name: id, type: integer, primary_key: true }]
  letters:
    realtime: true
    rls: [{ operations: [select], to: authenticated, using: "true" }]
    fields: [{ name: id, type: integer, primary_key: true }]
`;

let world: BackendWorld;
let peer: Backend;
let admin: pg.Client;
const clients: SupabaseClient[] = [];
const sockets: RawSocket[] = [];

beforeAll(async () => {
  world = await startBackendWorld(YAML);
  peer = await startBackend({ ...world.options, port: 0 });
  admin = new pg.Client({ connectionString: world.databaseUrl });
  await admin.connect();
});

afterAll(async () => {
  for (const client of clients) {
    await client.removeAllChannels();
    await client.realtime.disconnect();
  }
  for (const socket of sockets) socket.close();
  await peer.stop();
  await admin.end();
  await world.close();
});

function at(url: string): SupabaseClient {
  const client = createClient(url, world.keys.publishable);
  clients.push(client);
  return client;
}

async function raw(url: string): Promise<RawSocket> {
  const socket = await RawSocket.open(url, world.keys.publishable);
  sockets.push(socket);
  return socket;
}

async function subscribed(channel: RealtimeChannel): Promise<RealtimeChannel> {
  await new Promise<void>((resolve) =>
    channel.subscribe((status: string) => {
      if (status === 'SUBSCRIBED') resolve();
    }),
  );
  return channel;
}

test('broadcasts reach other instances in order, including large ones and bytes, but not the sender', async () => {
  const [here, there] = await Promise.all([raw(world.url), raw(peer.url)]);
  const joinRef = await here.join('cross');
  await there.join('cross');
  const large = 'x'.repeat(2_000_000);
  for (let n = 0; n < 30; n++) {
    const payload = { n, ...(n === 10 ? { large } : {}) };
    here.push('realtime:cross', 'broadcast', { event: 'n', payload }, joinRef);
  }
  await expect.poll(() => there.of('broadcast').length).toBe(30);
  const heard = there
    .of('broadcast')
    .map(({ payload }) => payload['payload'] as { n: number; large?: string });
  expect(heard.map(({ n }) => n)).toEqual(Array.from({ length: 30 }, (_, n) => n));
  expect(heard[10]?.large).toHaveLength(2_000_000);
  const answer = await fetch(
    `${world.url}/realtime/v1/api/broadcast/cross/events/raw?apikey=${world.keys.publishable}`,
    { method: 'POST', headers: { 'content-type': 'application/octet-stream' }, body: Buffer.from([1, 255]) },
  );
  expect(answer.status).toBe(202);
  await expect.poll(() => there.binary.length).toBe(1);
  expect(here.of('broadcast')).toHaveLength(0);
  // The row that carried the large message is deleted.
  const rows = await admin.query(`update realtime.overflow set at = at - interval '2 minutes'`);
  expect(rows.rowCount).toBe(1);
  await expect.poll(async () => (await admin.query('select from realtime.overflow')).rowCount).toBe(0);
});

test('an instance that starts during traffic: its first clients miss no message after their join', async () => {
  const speaker = await raw(world.url);
  const joinRef = await speaker.join('flying', { broadcast: { ack: true } });
  const over = new AbortController();
  let sent = 0;
  const speaking = (async () => {
    while (!over.signal.aborted) {
      const n = ++sent;
      await speaker.reply(
        speaker.push('realtime:flying', 'broadcast', { event: 'n', payload: { n } }, joinRef),
      );
    }
  })();
  const comer = await startBackend({ ...world.options, port: 0 });
  const first = await raw(comer.url);
  await first.join('flying');
  const joinedAt = sent;
  await expect.poll(() => sent).toBeGreaterThan(joinedAt + 20);
  over.abort();
  await speaking;
  const numbers = (): number[] =>
    first.of('broadcast').map(({ payload }) => (payload['payload'] as { n: number }).n);
  await expect.poll(() => numbers().at(-1)).toBe(sent);
  const heard = numbers();
  expect(heard[0]).toBeLessThanOrEqual(joinedAt + 1);
  expect(heard).toEqual(Array.from({ length: heard.length }, (_, at) => (heard[0] ?? 0) + at));
  await comer.stop();
});

test('an instance that starts during a long transaction serves broadcasts, and changes after its end', async () => {
  const writer = new pg.Client({ connectionString: world.databaseUrl });
  await writer.connect();
  await writer.query('begin; insert into rows values (-1)');
  const comer = await startBackend({ ...world.options, port: 0 });
  const socket = await raw(comer.url);
  const self = await socket.join('meanwhile', { broadcast: { self: true } });
  socket.push('realtime:meanwhile', 'broadcast', { event: 'x', payload: {} }, self);
  await socket.frame(({ event }) => event === 'broadcast');
  const asked = { postgres_changes: [{ event: 'INSERT', schema: 'public', table: 'rows' }] };
  const refused = await socket.reply(socket.push('realtime:changes', 'phx_join', { config: asked }));
  expect(refused.response['reason']).toMatch(/^InitializingProjectConnection/);
  await writer.query('commit');
  await writer.end();
  await expect
    .poll(
      async () => (await socket.reply(socket.push('realtime:changes', 'phx_join', { config: asked }))).status,
    )
    .toBe('ok');
  await admin.query('insert into rows values (-2)');
  const { payload } = await socket.frame(({ event }) => event === 'postgres_changes');
  expect(payload['data']).toMatchObject({ record: { id: -2 } });
  await comer.stop();
});

test('presence is shared by all instances: remote members, late members, leaving members', async () => {
  const watching = at(peer.url).channel('lobby');
  watching.on('presence', { event: 'sync' }, () => {});
  await subscribed(watching);
  const ann = await subscribed(at(world.url).channel('lobby', { config: { presence: { key: 'ann' } } }));
  await ann.track({ n: 1 });
  await expect.poll(() => Object.keys(watching.presenceState())).toEqual(['ann']);
  const late = at(peer.url).channel('lobby', { config: { presence: { key: 'late' } } });
  late.on('presence', { event: 'sync' }, () => {});
  await subscribed(late);
  await expect.poll(() => Object.keys(late.presenceState())).toEqual(['ann']);
  await ann.untrack();
  await expect.poll(() => Object.keys(watching.presenceState())).toEqual([]);
});

test('a member that leaves at another instance is reported once, for every kind of end', async () => {
  const third = await startBackend({ ...world.options, port: 0 });
  const watcher = await raw(world.url);
  await watcher.join('leaving', { presence: { enabled: true } });
  const told = (): string[] =>
    watcher
      .of('presence_diff')
      .flatMap(({ payload: { joins, leaves } }) => [
        ...Object.keys(joins as object).map((key) => `${key} comes`),
        ...Object.keys(leaves as object).map((key) => `${key} leaves`),
      ]);
  const comes = async (key: string, url: string): Promise<[RawSocket, string]> => {
    const socket = await raw(url);
    const joinRef = await socket.join('leaving', { presence: { key } });
    socket.push('realtime:leaving', 'presence', { event: 'track', payload: {} }, joinRef);
    await expect.poll(() => told().at(-1)).toBe(`${key} comes`);
    return [socket, joinRef];
  };
  const [ann, joinRef] = await comes('ann', third.url);
  const [ben] = await comes('ben', third.url);
  await comes('cal', third.url);
  ann.push('realtime:leaving', 'presence', { event: 'untrack' }, joinRef);
  await ann.reply(ann.push('realtime:leaving', 'phx_leave', {}, joinRef));
  ann.close();
  await expect.poll(() => told().at(-1)).toBe('ann leaves');
  ben.close();
  await expect.poll(() => told().at(-1)).toBe('ben leaves');
  await third.stop();
  await comes('dan', peer.url);
  expect(told()).toEqual([
    ...['ann', 'ben', 'cal'].map((key) => `${key} comes`),
    ...['ann', 'ben', 'cal'].map((key) => `${key} leaves`),
    'dan comes',
  ]);
});

test('a member of an instance that restarts has one entry in the end, and never two', async () => {
  const port = await freePort();
  let third = await startBackend({ ...world.options, port });
  const counts: number[] = [];
  const watching = at(world.url).channel('restarting');
  watching.on('presence', { event: 'sync' }, () => counts.push(watching.presenceState()['ann']?.length ?? 0));
  await subscribed(watching);
  const ann = at(third.url).channel('restarting', { config: { presence: { key: 'ann' } } });
  ann.on('presence', { event: 'sync' }, () => {});
  let tracked = 0;
  ann.subscribe((status: string) => {
    if (status === 'SUBSCRIBED') void ann.track({ n: ++tracked });
  });
  const seen = (channel: RealtimeChannel): unknown => channel.presenceState()['ann'];
  try {
    await expect.poll(() => seen(watching)).toMatchObject([{ n: 1 }]);
    await third.stop();
    third = await startBackend({ ...world.options, port });
    for (const channel of [watching, ann]) {
      await expect.poll(() => seen(channel)).toMatchObject([{ n: 2 }]);
    }
    expect(counts).toEqual([0, 1, 0, 1]);
  } finally {
    await third.stop();
  }
});

test('changes reach clients of both instances', async () => {
  const heard: Array<[string, number]> = [];
  for (const [name, url] of [
    ['one', world.url],
    ['two', peer.url],
  ] as const) {
    await subscribed(
      at(url)
        .channel(`changes-${name}`)
        .on('postgres_changes', { event: 'INSERT', schema: 'public', table: 'rows' }, (change) =>
          heard.push([name, Number(change.new['id'])]),
        ),
    );
  }
  await admin.query('insert into rows values (1)');
  await expect.poll(() => heard.length).toBe(2);
  expect(new Set(heard.map(([name, id]) => `${name} ${id}`))).toEqual(new Set(['one 1', 'two 1']));
});

test('signing out at one instance closes the private channels at the other', async () => {
  const email = 'ann@example.com';
  const client = at(world.url);
  const { data, error } = await client.auth.signUp({ email, password: 'ann-password-1' });
  expect(error).toBeNull();
  await admin.query(
    `create policy users on realtime.messages for select to authenticated
      using (auth.uid() is not null and not auth.is_anonymous())`,
  );
  const token = data.session!.access_token;
  const there = await raw(peer.url);
  const joinRef = await there.join('mine', { private: true }, token);
  const inserts = ['rows', 'letters'].map((table) => ({ event: 'INSERT', schema: 'public', table }));
  const open = await there.join('public', { postgres_changes: inserts }, token);
  const heard = (): unknown[] =>
    there.of('postgres_changes').map(({ payload }) => {
      const { table, record } = payload['data'] as { table: string; record: { id: number } };
      return `${table} ${record.id}`;
    });
  await admin.query('insert into letters values (1)');
  await expect.poll(heard).toEqual(['letters 1']);
  await client.auth.signOut({ scope: 'global' });
  await there.frame((frame) => frame.event === 'phx_close' && frame.joinRef === joinRef);
  await there.settle();
  expect(there.frames.some((frame) => frame.event === 'phx_close' && frame.joinRef === open)).toBe(false);
  // Its public channels continue without a user.
  await admin.query('insert into letters values (2)');
  await admin.query('insert into rows values (100)');
  await expect.poll(heard).toEqual(['letters 1', 'rows 100']);
  const again = there.push('realtime:mine', 'phx_join', { config: { private: true }, access_token: token });
  expect((await there.reply(again)).response['reason']).toMatch(/^InvalidJWTToken: Session has ended/);
});

test('an instance that ends removes its members, notifies its clients and leaves no slot', async () => {
  const third = await startBackend({ ...world.options, port: 0 });
  const watching = at(world.url).channel('ending');
  watching.on('presence', { event: 'sync' }, () => {});
  await subscribed(watching);
  const socket = await raw(third.url);
  const joinRef = await socket.join('ending', { presence: { key: 'gone', enabled: true } });
  socket.push('realtime:ending', 'presence', { event: 'track', payload: {} }, joinRef);
  await expect.poll(() => Object.keys(watching.presenceState())).toEqual(['gone']);
  await third.stop();
  await expect.poll(() => Object.keys(watching.presenceState())).toEqual([]);
  await expect.poll(() => socket.closed?.code).toBe(1012);
  expect(socket.of('system').at(-1)?.payload).toMatchObject({
    status: 'ok',
    message: 'Server requested disconnect',
  });
  const slots = async (): Promise<number> =>
    (await admin.query(`select from pg_replication_slots where database = current_database()`)).rowCount ??
    -1;
  await expect.poll(slots).toBe(2);
});
