// Use of the client library in apps, including mistakes: effects that run twice, channels that are left and rejoined
// immediately, two tabs of one user, and sessions that are renewed, ended and replaced while channels are open.
import * as newest from '@supabase/supabase-js';
import * as oldest from 'supabase-js-2.107';
import type { RealtimeChannel, SupabaseClient } from '@supabase/supabase-js';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';

const YAML = `
version: 1
project: { name: app }
realtime:
  rls:
    - operations: [select, insert]
      to: [authenticated]
      check: exists (select from members m where m.user_id = auth.uid() and 'room:' || m.room = realtime.topic())
tables:
  members:
    rls: [{ operations: [select], using: user_id = auth.uid() }]
    fields:
      - { name: room, type: text, primary_key: true }
      - { name: user_id, type: uuid, primary_key: true }
  messages:
    realtime: true
    rls:
      - operations: [select]
        using: exists (select from members m where m.room = messages.room and m.user_id = auth.uid())
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: room, type: text, required: true }
`;

const LIBRARIES: ReadonlyArray<[string, typeof newest.createClient]> = [
  ['2.107', oldest.createClient as unknown as typeof newest.createClient],
  ['newest', newest.createClient],
];

let world: BackendWorld;
let admin: pg.Client;
let ids = 0;

beforeAll(async () => {
  world = await startBackendWorld(YAML);
  admin = new pg.Client({ connectionString: world.databaseUrl });
  await admin.connect();
});

afterAll(async () => {
  await admin.end();
  await world.close();
});

describe.each(LIBRARIES)('supabase-js %s', (version, createClient) => {
  const clients: SupabaseClient[] = [];

  afterEach(async () => {
    for (const client of clients.splice(0)) {
      await client.removeAllChannels();
      await client.realtime.disconnect();
      await client.auth.stopAutoRefresh();
    }
  });

  function tab(): SupabaseClient {
    const client = createClient(world.url, world.keys.publishable, {
      auth: { storageKey: `tab-${ids++}`, persistSession: false },
    });
    clients.push(client);
    return client;
  }

  async function signedUp(client: SupabaseClient, ...rooms: string[]): Promise<string> {
    const credentials = { email: `user-${ids++}@example.com`, password: 'a long password' };
    const { data, error } = await client.auth.signUp(credentials);
    if (error || !data.user) throw error ?? new Error('no user');
    for (const room of rooms) await admin.query('insert into members values ($1, $2)', [room, data.user.id]);
    return data.user.id;
  }

  type Received = { readonly words: unknown[]; readonly rows: unknown[]; readonly statuses: string[] };

  function subscribe(
    client: SupabaseClient,
    room: string,
    key = '',
  ): Received & { channel: RealtimeChannel } {
    const received: Received = { words: [], rows: [], statuses: [] };
    const channel = client
      .channel(`room:${room}`, { config: { private: true, presence: { key }, broadcast: { ack: true } } })
      .on('broadcast', { event: 'word' }, ({ payload }) => received.words.push(payload))
      .on(
        'postgres_changes',
        { event: 'INSERT', schema: 'public', table: 'messages', filter: `room=eq.${room}` },
        ({ new: row }) => received.rows.push(row['id']),
      )
      .on('presence', { event: 'sync' }, () => {})
      .subscribe((status: string) => received.statuses.push(status));
    return { ...received, channel };
  }

  const last = ({ statuses }: Received): string | undefined => statuses.at(-1);
  const sendMessage = async ({ channel }: { channel: RealtimeChannel }, payload: object): Promise<string> =>
    await channel.send({ type: 'broadcast', event: 'word', payload: { ...payload } });

  async function write(room: string): Promise<number> {
    const id = ids++;
    await admin.query('insert into messages values ($1, $2)', [id, room]);
    return id;
  }

  /** A client in the room that sends and receives. */
  async function companion(room: string): Promise<ReturnType<typeof subscribe>> {
    const client = tab();
    await signedUp(client, room);
    const subscription = subscribe(client, room, 'companion');
    await expect.poll(() => last(subscription)).toBe('SUBSCRIBED');
    return subscription;
  }

  test('an effect that runs, is cleaned up and runs again receives every message once', async () => {
    const room = `strict-${ids++}`;
    const partner = await companion(room);
    const client = tab();
    await signedUp(client, room);
    const first = subscribe(client, room);
    // Like a clean-up function, which does not wait.
    void client.removeChannel(first.channel);
    await expect.poll(() => client.getChannels().length).toBe(0);
    const second = subscribe(client, room);
    await expect.poll(() => last(second)).toBe('SUBSCRIBED');
    await sendMessage(partner, { n: 1 });
    const id = await write(room);
    await expect.poll(() => [second.words, second.rows]).toEqual([[{ n: 1 }], [id]]);
    expect([first.words, first.rows]).toEqual([[], []]);
    await second.channel.track({ here: true });
    await expect.poll(() => Object.keys(partner.channel.presenceState()).length).toBe(1);
  });

  test('a channel can be left and rejoined immediately, many times', async () => {
    const room = `hasty-${ids++}`;
    const partner = await companion(room);
    const client = tab();
    await signedUp(client, room);
    for (let round = 0; round < 5; round++) {
      const subscription = subscribe(client, room, 'hasty');
      if (round % 2 === 0) await expect.poll(() => last(subscription)).toBe('SUBSCRIBED');
      if (round % 2 === 0) await subscription.channel.track({ round });
      await client.removeChannel(subscription.channel);
    }
    const stays = subscribe(client, room, 'hasty');
    await expect.poll(() => last(stays)).toBe('SUBSCRIBED');
    await stays.channel.track({ round: 'last' });
    await expect
      .poll(() =>
        partner.channel.presenceState()['hasty']?.map((meta) => (meta as { round?: unknown }).round),
      )
      .toEqual(['last']);
    await sendMessage(partner, { n: 2 });
    await expect.poll(() => stays.words).toEqual([{ n: 2 }]);
    expect(stays.statuses).toEqual(['SUBSCRIBED']);
  });

  test('two tabs of one user are two members, and each receives the messages of the other', async () => {
    const room = `tabs-${ids++}`;
    const watching = await companion(room);
    const [subscription, two] = [tab(), tab()];
    await signedUp(subscription, room);
    const { data } = await subscription.auth.getSession();
    await two.auth.setSession(data.session!);
    const [a, b] = [subscribe(subscription, room, 'user'), subscribe(two, room, 'user')];
    for (const each of [a, b]) await expect.poll(() => last(each)).toBe('SUBSCRIBED');
    await a.channel.track({ tab: 1 });
    await b.channel.track({ tab: 2 });
    const tabs = (): number => watching.channel.presenceState()['user']?.length ?? 0;
    await expect.poll(tabs).toBe(2);
    expect(await sendMessage(a, { from: 'a' })).toBe('ok');
    await expect.poll(() => b.words).toEqual([{ from: 'a' }]);
    expect(a.words).toEqual([]);
    await subscription.realtime.disconnect();
    // After another member has joined, the old version cannot match the entries and keeps all of them.
    if (version === 'newest') await expect.poll(tabs).toBe(1);
  });

  test('a session that is renewed leaves its channels open', async () => {
    const room = `renewed-${ids++}`;
    const partner = await companion(room);
    const client = tab();
    await signedUp(client, room);
    const subscription = subscribe(client, room);
    await expect.poll(() => last(subscription)).toBe('SUBSCRIBED');
    for (let round = 0; round < 3; round++) {
      const { error } = await client.auth.refreshSession();
      expect(error).toBeNull();
      await sendMessage(partner, { round });
      const id = await write(room);
      await expect.poll(() => subscription.words.at(-1)).toEqual({ round });
      await expect.poll(() => subscription.rows.at(-1)).toBe(id);
    }
    expect(subscription.statuses).toEqual(['SUBSCRIBED']);
  });

  test('signing out closes the channel; signing in as another user joins it again as that user', async () => {
    const room = `changed-${ids++}`;
    const partner = await companion(room);
    const client = tab();
    await signedUp(client, room);
    const subscription = subscribe(client, room);
    await expect.poll(() => last(subscription)).toBe('SUBSCRIBED');
    await client.auth.signOut();
    await expect.poll(() => last(subscription)).toBe('CLOSED');
    await sendMessage(partner, { n: 1 });
    await write(room);
    await signedUp(client, room);
    await expect.poll(() => client.getChannels().length).toBe(0);
    const again = subscribe(client, room);
    await expect.poll(() => last(again)).toBe('SUBSCRIBED');
    await sendMessage(partner, { n: 2 });
    await expect.poll(() => again.words).toEqual([{ n: 2 }]);
    expect([subscription.words, subscription.rows, again.rows]).toEqual([[], [], []]);
  });

  test('a removed member receives no message and no row, and is notified', async () => {
    const room = `kicked-${ids++}`;
    const partner = await companion(room);
    const client = tab();
    const user = await signedUp(client, room);
    const subscription = subscribe(client, room);
    await expect.poll(() => last(subscription)).toBe('SUBSCRIBED');
    await sendMessage(partner, { n: 1 });
    await expect.poll(() => subscription.words).toEqual([{ n: 1 }]);
    await admin.query('delete from members where user_id = $1', [user]);
    let n = 2;
    await expect
      .poll(
        async () => {
          await sendMessage(partner, { n: n++ });
          return last(subscription);
        },
        { interval: 200 },
      )
      .toBe('CLOSED');
    const words = subscription.words.length;
    await sendMessage(partner, { n });
    await write(room);
    await expect.poll(() => partner.rows.length).toBe(1);
    expect([subscription.words.length, subscription.rows]).toEqual([words, []]);
  });

  test('a channel that is joined before sign-in is joined again with the session', async () => {
    const room = `early-${ids++}`;
    const signedIn = tab();
    await signedUp(signedIn, room);
    const { data } = await signedIn.auth.getSession();
    const client = tab();
    const subscription = subscribe(client, room);
    await client.auth.setSession(data.session!);
    await expect.poll(() => last(subscription)).toBe('SUBSCRIBED');
  });
});
