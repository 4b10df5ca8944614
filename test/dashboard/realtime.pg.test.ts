// Routes of the page Realtime: channels of two instances, watching and sending as several callers.
import { createClient, type RealtimeChannel, type SupabaseClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RealtimeLive, WatchedFrame } from '../../src/dashboard-api/contract.ts';
import { Keyring } from '../../src/identity/keyring.ts';
import { sql } from '../../src/postgres/sql.ts';
import { Envelopes } from '../../src/realtime/bus/envelope.ts';
import { startBackend, type Backend } from '../../src/server/backend.ts';
import {
  startDashboardWorld,
  type DashboardWorld,
  type SignedIn,
} from '../support/dashboard/dashboard-world.ts';

const FILE = `
version: 1
auth: { email: {} }
tables:
  notes:
    realtime: true
    fields:
      - { name: id, type: int, primary_key: true }
      - { name: owner_id, type: uuid }
    rls: [{ operations: [select], using: owner_id = auth.uid() }]
realtime:
  rls:
    - { operations: [select], to: [authenticated], using: realtime.topic() = 'receive-only' }
`;

let world: DashboardWorld;
let peer: Backend;
let page: SignedIn;
let ada: string;
const clients: SupabaseClient[] = [];
const watches: AbortController[] = [];

beforeAll(async () => {
  world = await startDashboardWorld(FILE);
  peer = await startBackend({ ...world.options, dashboard: undefined, port: 0 });
  page = await world.signIn();
  const made = await page.call('/as/service/auth/v1/admin/users', {
    method: 'POST',
    body: { email: 'ada@example.com', password: 'a long password', email_confirm: true },
  });
  ada = made.json.id;
});

afterAll(async () => {
  for (const watch of watches) watch.abort();
  for (const client of clients) await client.realtime.disconnect();
  await peer.stop();
  await world.close();
});

function at(url: string): SupabaseClient {
  const client = createClient(url, world.keys.publishable);
  clients.push(client);
  return client;
}

async function joined(channel: RealtimeChannel): Promise<RealtimeChannel> {
  await new Promise<void>((resolve) =>
    channel.subscribe((status: string) => {
      if (status === 'SUBSCRIBED') resolve();
    }),
  );
  return channel;
}

const live = async (): Promise<RealtimeLive> => (await page.call('/realtime')).json as RealtimeLive;

type Watched = { readonly frames: WatchedFrame[]; isOver: boolean };

/** Reads until the page disconnects, like the browser's EventSource. */
async function watch(query: Record<string, string>): Promise<Watched> {
  const leaving = new AbortController();
  watches.push(leaving);
  const response = await fetch(
    `${world.url}/dashboard/api/realtime/watch?${new URLSearchParams(query).toString()}`,
    {
      headers: { cookie: page.cookie },
      signal: leaving.signal,
    },
  );
  expect(response.status).toBe(200);
  const watched: Watched = { frames: [], isOver: false };
  const read = async (): Promise<void> => {
    let text = '';
    for await (const chunk of response.body ?? []) {
      text += Buffer.from(chunk as Uint8Array).toString();
      const events = text.split('\n\n');
      text = events.pop() ?? '';
      for (const event of events) {
        if (event.startsWith('data: ')) watched.frames.push(JSON.parse(event.slice(6)) as WatchedFrame);
      }
    }
    watched.isOver = true;
  };
  void read().catch(() => (watched.isOver = true));
  return watched;
}

const named = ({ frames }: Watched, event: string): WatchedFrame[] =>
  frames.filter((frame) => frame.event === event);

test('lists the channels of all instances with members, presence and subscriptions', async () => {
  const here = at(world.url).channel('lobby', { config: { presence: { key: 'ann' } } });
  here.on('presence', { event: 'sync' }, () => {});
  here.on('postgres_changes', { event: '*', schema: 'public', table: 'notes' }, () => {});
  await joined(here);
  await here.track({});
  const there = await joined(at(peer.url).channel('lobby', { config: { presence: { key: 'ben' } } }));
  await there.track({});
  await joined(at(peer.url).channel('elsewhere'));

  await expect
    .poll(async () => (await live()).channels)
    .toMatchObject([
      { topic: 'lobby', private: false, members: 2, instances: 2, tables: ['public.notes'], presentCount: 2 },
      { topic: 'elsewhere', members: 1, instances: 1, present: [] },
    ]);
  const seen = await live();
  expect(seen).toMatchObject({
    enabled: true,
    silent: 0,
    more: 0,
    published: ['public.notes'],
    hasPolicies: true,
  });
  expect(seen.channels[0]?.present).toEqual(['ann', 'ben']);
  // Each opens a separate stream, and answers before it has one.
  await expect
    .poll(async () => (await live()).instances)
    .toMatchObject([
      { state: 'live', sockets: 1 },
      { state: 'live', sockets: 2 },
    ]);

  // Messages are counted on the instance of their members.
  const before = seen.channels[0]?.delivered ?? 0;
  await here.send({ type: 'broadcast', event: 'x', payload: {} });
  await expect.poll(async () => (await live()).channels[0]?.delivered).toBe(before + 1);
});

describe('a page that watches', () => {
  test('receives what the caller receives: rows that the policies show, broadcasts, presence', async () => {
    const asAda = await watch({ caller: `user:${ada}`, topic: 'watched', table: 'public.notes' });
    const asAnon = await watch({ caller: 'anon', topic: 'watched', table: 'public.notes' });
    const asService = await watch({ caller: 'service', topic: 'watched', table: 'public.*' });
    for (const watched of [asAda, asAnon, asService]) {
      await expect.poll(() => named(watched, 'phx_reply')).toMatchObject([{ payload: { status: 'ok' } }]);
    }
    await world.owner.query(sql`insert into notes values (1, ${ada}), (2, null)`);
    const member = await joined(at(world.url).channel('watched', { config: { presence: { key: 'ann' } } }));
    await member.track({ mood: 'fine' });
    await member.send({ type: 'broadcast', event: 'hello', payload: { n: 1 } });
    for (const watched of [asAda, asAnon, asService]) {
      await expect
        .poll(() => named(watched, 'broadcast'))
        .toMatchObject([{ payload: { event: 'hello', payload: { n: 1 } } }]);
      expect(named(watched, 'presence_diff')).toHaveLength(1);
    }
    const ids = (watched: Watched): unknown[] =>
      named(watched, 'postgres_changes').map(
        ({ payload }) => (payload as { data: { record: { id: number } } }).data.record.id,
      );
    await expect.poll(() => ids(asService)).toEqual([1, 2]);
    await expect.poll(() => ids(asAda)).toEqual([1]);
    expect(ids(asAnon)).toEqual([]);
    expect(asAda.frames.every(({ bytes, time }) => bytes > 0 && Date.parse(time) > 0)).toBe(true);
  });

  test('gets the reason if a private channel is refused, and receives one that the policies allow', async () => {
    const asAnon = await watch({ caller: 'anon', topic: 'receive-only', private: 'true' });
    await expect.poll(() => asAnon.isOver).toBe(true);
    expect(named(asAnon, 'phx_reply')).toMatchObject([
      { payload: { status: 'error', response: { reason: expect.stringMatching(/^Unauthorized: /) } } },
    ]);
    const asAda = await watch({ caller: `user:${ada}`, topic: 'receive-only', private: 'true' });
    await expect.poll(() => named(asAda, 'phx_reply')).toMatchObject([{ payload: { status: 'ok' } }]);
    expect(asAda.isOver).toBe(false);
  });

  test('leaves the channel when it is closed', async () => {
    const members = async (): Promise<number> =>
      (await live()).channels.find(({ topic }) => topic === 'short')?.members ?? 0;
    const watched = await watch({ caller: 'anon', topic: 'short' });
    await expect.poll(members).toBe(1);
    watches.at(-1)?.abort();
    await expect.poll(members).toBe(0);
    await expect.poll(() => watched.isOver).toBe(true);
  });

  test('needs valid query parameters', async () => {
    for (const query of [
      '',
      'caller=root&topic=x',
      'caller=anon&topic=x&table=notes',
      'caller=anon&topic=',
    ]) {
      expect((await page.call(`/realtime/watch?${query}`)).status).toBe(400);
    }
  });
});

test('sends as a caller, and reports a caller that the policies reject', async () => {
  const watched = await watch({ caller: 'service', topic: 'receive-only', private: 'true' });
  await expect.poll(() => named(watched, 'phx_reply')).toHaveLength(1);
  const send = async (caller: string): Promise<{ status: number; json: unknown }> =>
    await page.call('/realtime/send', {
      method: 'POST',
      body: { caller, topic: 'receive-only', private: true, event: 'note', payload: ['any', 'JSON'] },
    });
  expect(await send(`user:${ada}`)).toMatchObject({ status: 403, json: { code: 'not_allowed' } });
  const sent = await send('service');
  expect(sent.status).toBe(200);
  await expect
    .poll(() => named(watched, 'broadcast'))
    .toMatchObject([{ payload: { event: 'note', payload: ['any', 'JSON'] } }]);
});

test('a report that is too large for one notification arrives', async () => {
  const client = at(peer.url);
  const topics = Array.from({ length: 90 }, (_, number) => `one of the many channels elsewhere ${number}`);
  await Promise.all(topics.map((topic) => joined(client.channel(topic))));
  await expect
    .poll(async () => (await live()).channels.filter(({ topic }) => topic.startsWith('one of the many')))
    .toHaveLength(topics.length);
});

test('an instance that does not answer is reported as missing, without a long wait', async () => {
  // Simulates an instance that has announced itself and then froze.
  const secrets = { current: world.keys.secret, previous: [] };
  const keyring = await Keyring.open(world.owner, secrets, 'refuse');
  const envelopes = new Envelopes(keyring.macKeys('realtime bus'));
  const beat = envelopes.seal('svc_rt_peers', 'frozen', 1, ['{"kind":"beat"}']);
  await world.owner.query(sql`select pg_notify('svc_rt_peers', ${beat})`);
  await expect.poll(async () => (await live()).silent).toBe(1);
  const seen = await live();
  expect(seen.instances).toHaveLength(2);
});

test('a read-only dashboard can watch but not send', async () => {
  const readonly = await startDashboardWorld(FILE, { mode: 'readonly' });
  try {
    const session = await readonly.signIn();
    const refused = await session.call('/realtime/send', {
      method: 'POST',
      body: { caller: 'anon', topic: 'x', private: false, event: 'x', payload: {} },
    });
    expect(refused).toMatchObject({ status: 403, json: { code: 'dashboard_read_only' } });
    expect((await session.call('/realtime')).json).toMatchObject({ enabled: true, channels: [] });
  } finally {
    await readonly.close();
  }
});
