// Channels in the usage of the public client library, in the newest and an old version.
import * as newest from '@supabase/supabase-js';
import * as oldest from 'supabase-js-2.107';
import type { RealtimeChannel, SupabaseClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';

const LIBRARIES: ReadonlyArray<[string, typeof newest.createClient]> = [
  ['2.107', oldest.createClient as unknown as typeof newest.createClient],
  ['newest', newest.createClient],
];

let world: BackendWorld;
const clients: SupabaseClient[] = [];

beforeAll(async () => {
  world = await startBackendWorld('version: 1\nproject: { name: chat }\ntables: {}\n');
});

afterAll(async () => {
  for (const client of clients) {
    await client.removeAllChannels();
    await client.realtime.disconnect();
  }
  await world.close();
});

async function subscribed(channel: RealtimeChannel): Promise<RealtimeChannel> {
  await new Promise<void>((resolve, reject) => {
    channel.subscribe((status: string, error) => {
      if (status === 'SUBSCRIBED') resolve();
      else if (status === 'CHANNEL_ERROR' || status === 'TIMED_OUT') reject(error ?? new Error(status));
    });
  });
  return channel;
}

describe.each(LIBRARIES)('supabase-js %s', (version, createClient) => {
  const client = (key = world.keys.publishable): SupabaseClient => {
    const made = createClient(world.url, key);
    clients.push(made);
    return made;
  };
  const topic = (name: string): string => `${name}-${version}`;

  test('a broadcast reaches all other members', async () => {
    const [a, b] = [client(), client()];
    const received: Array<[string, unknown]> = [];
    const listening = (name: string, member: SupabaseClient, self = false): RealtimeChannel =>
      member
        .channel(topic('room'), { config: { broadcast: { self, ack: true } } })
        .on('broadcast', { event: 'hé' }, (message) => received.push([name, message]));
    const from = await subscribed(listening('a', a));
    await subscribed(listening('b', b));
    expect(await from.send({ type: 'broadcast', event: 'hé', payload: { n: 1, text: 'ü' } })).toBe('ok');
    await expect
      .poll(() => received)
      .toEqual([['b', { type: 'broadcast', event: 'hé', payload: { n: 1, text: 'ü' } }]]);
  });

  test('with self the sender receives its own broadcasts', async () => {
    const received: unknown[] = [];
    const channel = client()
      .channel(topic('self'), { config: { broadcast: { self: true } } })
      .on('broadcast', { event: '*' }, ({ payload }) => received.push(payload));
    await subscribed(channel);
    await channel.send({ type: 'broadcast', event: 'x', payload: { me: true } });
    await expect.poll(() => received).toEqual([{ me: true }]);
  });

  test('bytes arrive as bytes', async () => {
    const [a, b] = [client(), client()];
    const received: ArrayBuffer[] = [];
    await subscribed(
      b
        .channel(topic('bytes'))
        .on('broadcast', { event: 'raw' }, ({ payload }) => received.push(payload as unknown as ArrayBuffer)),
    );
    const from = await subscribed(a.channel(topic('bytes')));
    const bytes = Uint8Array.from([0, 255, 7]).buffer;
    await from.send({ type: 'broadcast', event: 'raw', payload: bytes });
    await expect.poll(() => received.length).toBe(1);
    expect(new Uint8Array(received[0]!)).toEqual(Uint8Array.from([0, 255, 7]));
  });

  test('before joining, a broadcast goes over HTTP', async () => {
    const [a, b] = [client(), client()];
    const received: unknown[] = [];
    await subscribed(
      b
        .channel(topic('http'))
        .on('broadcast', { event: '*' }, ({ event, payload }) => received.push([event, payload])),
    );
    const unjoined = a.channel(topic('http'));
    expect(await unjoined.send({ type: 'broadcast', event: 'x', payload: { n: 1 } })).toBe('ok');
    expect(await unjoined.httpSend('ev/1', { n: 2 })).toEqual({ success: true });
    await expect
      .poll(() => received)
      .toEqual([
        ['x', { n: 1 }],
        ['ev/1', { n: 2 }],
      ]);
  });

  test('presence: state, joins with the tracked payload, updates, leaves', async () => {
    const [a, b] = [client(), client()];
    const seen: string[] = [];
    const watching = b.channel(topic('lobby'), { config: { presence: { key: 'ben' } } });
    watching
      .on('presence', { event: 'sync' }, () => seen.push('sync'))
      .on('presence', { event: 'join' }, ({ key, newPresences }) =>
        seen.push(`join ${key} ${String(newPresences[0]?.['mood'])}`),
      )
      .on('presence', { event: 'leave' }, ({ key }) => seen.push(`leave ${key}`));
    await subscribed(watching);
    await expect.poll(() => seen).toContain('sync');
    const ann = await subscribed(a.channel(topic('lobby'), { config: { presence: { key: 'ann' } } }));
    expect(await ann.track({ mood: 'fine' })).toBe('ok');
    await expect.poll(() => seen).toContain('join ann fine');
    const [meta] = watching.presenceState<{ mood: string }>()['ann'] ?? [];
    expect(meta).toMatchObject({ mood: 'fine', presence_ref: expect.any(String) });
    expect(await ann.track({ mood: 'better' })).toBe('ok');
    await expect.poll(() => watching.presenceState()['ann']?.at(-1)).toMatchObject({ mood: 'better' });
    // With join listeners the old version removes the reference from its state and keeps the earlier entry.
    if (version === 'newest') expect(watching.presenceState()['ann']).toHaveLength(1);
    expect(await ann.untrack()).toBe('ok');
    await expect.poll(() => seen).toContain('leave ann');
    if (version === 'newest') expect(watching.presenceState()['ann']).toBeUndefined();
  });

  test('two sockets with one key are one presence with two entries; a socket that ends leaves', async () => {
    const [a, b, c] = [client(), client(), client()];
    const watching = c.channel(topic('twins')).on('presence', { event: 'sync' }, () => {});
    await subscribed(watching);
    for (const member of [a, b]) {
      const channel = await subscribed(
        member.channel(topic('twins'), { config: { presence: { key: '__proto__' } } }),
      );
      await channel.track({ n: 1 });
    }
    const entries = (): number =>
      Object.entries(watching.presenceState()).flatMap(([, metas]) => metas).length;
    const isProto = (): boolean => Object.getPrototypeOf(watching.presenceState()) === Object.prototype;
    await expect.poll(() => entries() + (isProto() ? 0 : 2)).toBe(2);
    await a.realtime.disconnect();
    await b.realtime.disconnect();
    await expect.poll(entries).toBe(0);
  });

  test('leaving ends in CLOSED; another channel of the same name can be joined', async () => {
    const member = client();
    const channel = member.channel(topic('again'));
    const statuses: string[] = [];
    channel.subscribe((status) => statuses.push(status));
    await expect.poll(() => statuses).toEqual(['SUBSCRIBED']);
    expect(await member.removeChannel(channel)).toBe('ok');
    expect(statuses).toEqual(['SUBSCRIBED', 'CLOSED']);
    await subscribed(member.channel(topic('again')));
  });

  test('a channel of an unpublished table is joined, and its client gets the reason', async () => {
    const told: Array<{ status?: string; message?: string }> = [];
    const channel = client()
      .channel(topic('changes'))
      .on('postgres_changes', { event: 'INSERT', schema: 'public', table: 'none' }, () => {});
    channel.on('system', {}, (payload) => told.push(payload));
    await subscribed(channel);
    await expect.poll(() => told).toMatchObject([{ status: 'error', extension: 'postgres_changes' }]);
  });
});
