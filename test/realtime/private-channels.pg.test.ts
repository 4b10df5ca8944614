// Private channels: policies on realtime.messages decide, at the first use, after a new token and after a new file.
import { createClient, type RealtimeChannel, type SupabaseClient } from '@supabase/supabase-js';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SCHEMA_CHANNEL } from '../../src/migrate/state/applied-state.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { RawSocket } from './raw-socket.ts';

/** While a session holds this lock, changes of the table `held` wait, and so do later changes. */
const HOLD = 4_711;

const YAML = `
version: 1
project: { name: rooms }
tables:
  members:
    rls:
      - { operations: [select], using: user_id = auth.uid() }
    fields:
      - { name: room, type: text, primary_key: true }
      - { name: user_id, type: uuid, primary_key: true }
      - { name: writes, type: boolean, required: true, default: true }
  held:
    realtime: true
    rls:
      - { operations: [select], to: authenticated, using: pg_advisory_xact_lock_shared(${HOLD}) is not null }
    fields:
      - { name: id, type: integer, primary_key: true }
`;

/** The policies that the migration engine creates from `realtime.rls`. */
const POLICIES = `
create policy members_read on realtime.messages for select to authenticated
  using (exists (select from public.members m where m.user_id = auth.uid() and 'room:' || m.room = realtime.topic()));
create policy members_write on realtime.messages for insert to authenticated
  with check (exists (select from public.members m
    where m.user_id = auth.uid() and m.writes and 'room:' || m.room = realtime.topic()));
`;

let world: BackendWorld;
let admin: pg.Client;
const ann = { id: '00000000-0000-4000-8000-00000000000a', token: '' };
const ben = { id: '00000000-0000-4000-8000-00000000000b', token: '' };
const clients: SupabaseClient[] = [];
const sockets: RawSocket[] = [];

beforeAll(async () => {
  world = await startBackendWorld(YAML);
  admin = new pg.Client({ connectionString: world.databaseUrl });
  await admin.connect();
  await admin.query(POLICIES);
  await admin.query(
    `insert into members values ('red', $1, true), ('red', $2, false), ('blue', $2, true), ('left', $1, true)`,
    [ann.id, ben.id],
  );
  for (const user of [ann, ben]) user.token = await world.token({ role: 'authenticated', sub: user.id });
});

afterAll(async () => {
  for (const client of clients) await client.removeAllChannels();
  for (const socket of sockets) socket.close();
  await admin.end();
  await world.close();
});

function clientFor(user: { token: string }): SupabaseClient {
  const client = createClient(world.url, world.keys.publishable, {
    accessToken: () => Promise.resolve(user.token),
  });
  clients.push(client);
  return client;
}

async function subscribed(channel: RealtimeChannel): Promise<string> {
  return await new Promise((resolve) => {
    channel.subscribe((status: string, error) => {
      if (status !== 'CLOSED') resolve(error ? `${status}: ${error.message}` : status);
    });
  });
}

async function open(): Promise<RawSocket> {
  const socket = await RawSocket.open(world.url, world.keys.publishable);
  sockets.push(socket);
  return socket;
}

const PRIVATE = { private: true, broadcast: { ack: true } };

test('a member receives; others are rejected with the reason', async () => {
  const [a, b] = [clientFor(ann), clientFor(ben)];
  await Promise.all([a.realtime.setAuth(), b.realtime.setAuth()]);
  const heard: unknown[] = [];
  const inBlue = b.channel('room:blue', { config: PRIVATE });
  inBlue.on('broadcast', { event: 'x' }, ({ payload }) => heard.push(payload));
  expect(await subscribed(inBlue)).toBe('SUBSCRIBED');
  expect(await subscribed(a.channel('room:blue', { config: PRIVATE }))).toMatch(
    /You do not have permissions to read from this Channel topic: room:blue/,
  );
  const service = createClient(world.url, world.keys.secret);
  clients.push(service);
  const all = service.channel('room:blue', { config: PRIVATE });
  expect(await subscribed(all)).toBe('SUBSCRIBED');
  expect(await all.send({ type: 'broadcast', event: 'x', payload: { n: 1 } })).toBe('ok');
  await expect.poll(() => heard).toEqual([{ n: 1 }]);
});

test('a reader cannot send, and gets a reply with ack', async () => {
  const [reader, writer] = await Promise.all([open(), open()]);
  const joinRef = await reader.join('room:red', PRIVATE, ben.token);
  const writerRef = await writer.join('room:red', PRIVATE, ann.token);
  const denied = reader.push('realtime:room:red', 'broadcast', { event: 'x', payload: {} }, joinRef);
  expect(await reader.reply(denied)).toEqual({ status: 'error', response: { reason: 'Unauthorized' } });
  const sent = writer.push('realtime:room:red', 'broadcast', { event: 'y', payload: { n: 2 } }, writerRef);
  expect(await writer.reply(sent)).toMatchObject({ status: 'ok' });
  const { payload } = await reader.frame((frame) => frame.event === 'broadcast');
  expect(payload).toMatchObject({ event: 'y' });
  expect(writer.of('broadcast')).toHaveLength(0);
});

test('broadcasts that are sent before a right is known keep their order', async () => {
  const [reader, writer] = await Promise.all([open(), open()]);
  await reader.join('room:red', PRIVATE, ben.token);
  const joinRef = await writer.join('room:red', { private: true }, ann.token);
  for (let n = 0; n < 20; n++) {
    writer.push('realtime:room:red', 'broadcast', { event: 'n', payload: { n } }, joinRef);
  }
  await expect.poll(() => reader.of('broadcast').length).toBe(20);
  expect(reader.of('broadcast').map(({ payload }) => payload['payload'])).toEqual(
    Array.from({ length: 20 }, (_, n) => ({ n })),
  );
});

test('private and public channels of one name are separate', async () => {
  const [member, stranger] = await Promise.all([open(), open()]);
  const joinRef = await member.join('room:red', PRIVATE, ann.token);
  await stranger.join('room:red', { broadcast: { ack: true } });
  const sent = member.push('realtime:room:red', 'broadcast', { event: 'x', payload: {} }, joinRef);
  await member.reply(sent);
  await stranger.settle();
  expect(stranger.of('broadcast')).toHaveLength(0);
});

test('presence needs its rights too', async () => {
  const socket = await open();
  const joinRef = await socket.join('room:red', { private: true, presence: { enabled: true } }, ben.token);
  await socket.frame((frame) => frame.event === 'presence_state');
  const track = socket.push('realtime:room:red', 'presence', { event: 'track', payload: { a: 1 } }, joinRef);
  expect(await socket.reply(track)).toEqual({ status: 'error', response: { reason: 'Unauthorized' } });
});

test('a member without the presence right receives no presence', async () => {
  await admin.query(`create policy words on realtime.messages for select to authenticated
    using (realtime.topic() = 'words only' and extension = 'broadcast')`);
  const config = { private: true, presence: { enabled: true }, broadcast: { ack: true } };
  const socket = await open();
  await socket.join('words only', config, ben.token);
  const service = await RawSocket.open(world.url, world.keys.secret);
  sockets.push(service);
  const joinRef = await service.join('words only', config);
  const track = service.push('realtime:words only', 'presence', { event: 'track', payload: {} }, joinRef);
  expect(await service.reply(track)).toMatchObject({ status: 'ok' });
  service.push('realtime:words only', 'broadcast', { event: 'x', payload: {} }, joinRef);
  await socket.frame(({ event }) => event === 'broadcast');
  expect(socket.frames.filter(({ event }) => event.startsWith('presence'))).toEqual([]);
  expect(service.of('presence_diff')).toHaveLength(1);
});

test('a token of another user changes the rights; losing the read right closes the channel', async () => {
  const socket = await open();
  const joinRef = await socket.join('room:left', { private: true }, ann.token);
  socket.push('realtime:room:left', 'access_token', { access_token: ben.token }, joinRef);
  const told = await socket.frame((frame) => frame.event === 'system');
  expect(told.payload).toMatchObject({
    status: 'error',
    message: 'You no longer have permission to read from this Channel topic: room:left',
  });
  await socket.frame((frame) => frame.event === 'phx_close' && frame.joinRef === joinRef);
});

test('after a change of the schema, policies are evaluated again without a message', async () => {
  const socket = await open();
  const joinRef = await socket.join('room:left', { private: true }, ann.token);
  await admin.query(`delete from members where room = 'left'`);
  // Any change of the schema makes all instances evaluate policies again.
  await admin.query(`comment on table members is 'fewer'`);
  await admin.query(`select pg_notify($1, '')`, [SCHEMA_CHANNEL]);
  await socket.frame((frame) => frame.event === 'phx_close' && frame.joinRef === joinRef);
});

test('stored messages are replayed, oldest first, and are not repeated', async () => {
  const since = Date.now() - 1_000;
  const listener = await open();
  await listener.join('room:blue', { private: true }, ben.token);
  for (const n of [1, 2, 3]) {
    await admin.query(`select realtime.send(jsonb_build_object('n', $1::int), 'stored', 'room:blue')`, [n]);
    // A message of the public channel with the same name is not replayed.
    await admin.query(`select realtime.send('{"n": 0}', 'public', 'room:blue', false)`);
  }
  // A client that joins before all are sent receives the last ones as new.
  await expect.poll(() => listener.of('broadcast').length).toBe(3);
  const socket = await open();
  await socket.join('room:blue', { private: true, broadcast: { replay: { since, limit: 2 } } }, ben.token);
  await expect.poll(() => socket.of('broadcast').length).toBe(2);
  const payloads = socket.of('broadcast').map(({ payload }) => payload);
  expect(payloads).toMatchObject([
    { event: 'stored', payload: { n: 2 }, meta: { replayed: true } },
    { event: 'stored', payload: { n: 3 }, meta: { replayed: true } },
  ]);
});

test('without a limit the newest 25 are replayed, oldest first, to clients of the library as well', async () => {
  const since = Date.now() - 1_000;
  for (let n = 1; n <= 30; n++) {
    await admin.query(`select realtime.send(jsonb_build_object('n', $1::int), 'many', 'room:red')`, [n]);
  }
  // A change that is decoded after them proves that none of them is pending.
  const marked = await open();
  await marked.join('room:blue', { private: true }, ben.token);
  await admin.query(`select realtime.send('{}', 'mark', 'room:blue')`);
  await marked.frame(({ payload }) => payload['event'] === 'mark');
  const newest = Array.from({ length: 25 }, (_, at) => at + 6);

  const socket = await open();
  await socket.join('room:red', { private: true, broadcast: { replay: { since } } }, ann.token);
  await socket.settle();
  const raw = socket.of('broadcast').map(({ payload }) => (payload['payload'] as { n: number }).n);
  expect(raw).toEqual(newest);

  const client = clientFor(ann);
  await client.realtime.setAuth();
  const heard: Array<{ payload: { n: number }; meta?: { replayed?: boolean } }> = [];
  const channel = client
    .channel('room:red', { config: { private: true, broadcast: { replay: { since } } } })
    .on('broadcast', { event: 'many' }, (message) => heard.push(message as never));
  expect(await subscribed(channel)).toBe('SUBSCRIBED');
  await expect.poll(() => heard.map(({ payload }) => payload.n)).toEqual(newest);
  expect(new Set(heard.map(({ meta }) => meta?.replayed))).toEqual(new Set([true]));
});

test('a stored message that is replayed before its broadcast arrives is delivered once', async () => {
  const since = Date.now() - 1_000;
  const holder = new pg.Client({ connectionString: world.databaseUrl });
  await holder.connect();
  await holder.query(`select pg_advisory_lock(${HOLD})`);
  try {
    const watcher = await open();
    const changes = [{ event: 'INSERT', schema: 'public', table: 'held' }];
    await watcher.join('held', { postgres_changes: changes }, ben.token);
    await admin.query('insert into held values (1)');
    const waiting = `select from pg_locks l join pg_database d on d.oid = l.database
      where datname = current_database() and locktype = 'advisory' and not granted`;
    await expect.poll(async () => (await admin.query(waiting)).rowCount).toBe(1);
    await admin.query(`select realtime.send('{}', 'once', 'room:blue')`);
    const socket = await open();
    await socket.join('room:blue', { private: true, broadcast: { replay: { since, limit: 1 } } }, ben.token);
    await socket.frame(({ payload }) => payload['event'] === 'once');
    await holder.query(`select pg_advisory_unlock(${HOLD})`);
    await admin.query(`select realtime.send('{}', 'after', 'room:blue')`);
    await socket.frame(({ payload }) => payload['event'] === 'after');
    expect(socket.of('broadcast').map(({ payload }) => payload['event'])).toEqual(['once', 'after']);
  } finally {
    await holder.end();
  }
});

test('replay of a public channel, or without a start, is rejected', async () => {
  const socket = await open();
  const join = async (config: object): Promise<unknown> => {
    const ref = socket.push('realtime:room:blue', 'phx_join', { config, access_token: ben.token });
    return (await socket.reply(ref)).response['reason'];
  };
  expect(await join({ broadcast: { replay: { since: 1 } } })).toMatch(/^UnableToReplayMessages/);
  expect(await join({ private: true, broadcast: { replay: {} } })).toMatch(/^UnableToReplayMessages/);
  const never = { since: Number.MAX_SAFE_INTEGER };
  expect(await join({ private: true, broadcast: { replay: never } })).toMatch(/^UnableToReplayMessages/);
});

test('checking rights leaves no rows', async () => {
  const kept = async (): Promise<unknown> =>
    (await admin.query('select count(*)::int as n from realtime.messages')).rows[0];
  const before = await kept();
  // One socket each: the fourth rejection of one socket would wait.
  const answers = Array.from({ length: 20 }, async (_, n) => {
    const socket = await open();
    const join = { config: { private: true }, access_token: ann.token };
    return await socket.reply(socket.push(`realtime:room:none-${n}`, 'phx_join', join));
  });
  expect(new Set((await Promise.all(answers)).map(({ status }) => status))).toEqual(new Set(['error']));
  // Senders with and without the right.
  for (const [{ token }, status] of [
    [ann, 'ok'],
    [ben, 'error'],
  ] as const) {
    const socket = await open();
    const joinRef = await socket.join('room:red', PRIVATE, token);
    const sent = socket.push('realtime:room:red', 'broadcast', { event: 'x', payload: {} }, joinRef);
    expect(await socket.reply(sent)).toMatchObject({ status });
  }
  expect(await kept()).toEqual(before);
});

test('callers cannot write the rows that check rights', async () => {
  for (const role of ['anon', 'authenticated', 'service_role']) {
    const call = admin.query(
      `begin; set local role ${role}; select realtime.begin_probe('x', gen_random_uuid(), gen_random_uuid())`,
    );
    await expect(call).rejects.toThrow(/permission denied/);
    await admin.query('rollback');
  }
});

test('send of a caller without a policy warns, and the statement succeeds', async () => {
  const notices: string[] = [];
  admin.on('notice', ({ message }) => notices.push(message ?? ''));
  await admin.query(
    `begin; set local role authenticated; select realtime.send('{}', 'x', 'room:red'); commit`,
  );
  expect(notices.join()).toContain('the broadcast was not sent');
});

test('a trigger that sends without a policy does not fail the statement and delivers no message', async () => {
  await admin.query(`
    create table posts (id integer primary key);
    grant insert, select on posts to authenticated;
    create function tell_red() returns trigger language plpgsql as $$
    begin
      perform realtime.send(jsonb_build_object('n', new.id), 'posted', 'room:red');
      return new;
    end $$;
    create trigger tell_red after insert on posts for each row execute function tell_red()`);
  const reader = await open();
  await reader.join('room:red', { private: true }, ben.token);
  const notices: string[] = [];
  const caller = new pg.Client({ connectionString: world.databaseUrl });
  caller.on('notice', ({ severity, message }) => notices.push(`${severity}: ${message}`));
  await caller.connect();
  const insertAs = async ({ id }: typeof ann, row: number): Promise<void> => {
    await caller.query('begin; set local role authenticated');
    await caller.query(`select set_config('request.jwt.claims', $1, true)`, [
      JSON.stringify({ role: 'authenticated', sub: id }),
    ]);
    await caller.query('insert into posts values ($1)', [row]);
    await caller.query('commit');
  };
  try {
    // The user can read the room, but not write to it.
    await insertAs(ben, 1);
    expect(notices).toEqual([
      expect.stringMatching(/^WARNING: the broadcast was not sent: .*row-level security/),
    ]);
    await insertAs(ann, 2);
    expect(notices).toHaveLength(1);
  } finally {
    await caller.end();
  }
  expect((await admin.query('select id from posts order by id')).rows).toEqual([{ id: 1 }, { id: 2 }]);
  await expect
    .poll(() => reader.of('broadcast').map(({ payload }) => payload))
    .toMatchObject([{ event: 'posted', payload: { n: 2 } }]);
  const { rows } = await admin.query(
    `select payload->'n' as n from realtime.messages where event = 'posted'`,
  );
  expect(rows).toEqual([{ n: 2 }]);
});
