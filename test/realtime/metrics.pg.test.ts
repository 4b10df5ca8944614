// The metrics of realtime in /metrics after counted events.
import { createClient, type RealtimeChannel, type SupabaseClient } from '@supabase/supabase-js';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startBackend, type Backend } from '../../src/server/backend.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { RawSocket } from './raw-socket.ts';

const YAML = `
version: 1
project: { name: figures }
tables:
  notes:
    realtime: true
    rls:
      - { operations: [select], using: "true" }
    fields: [{ name: id, type: integer, primary_key: true }]
`;
const TOKEN = 'a-token-of-more-than-thirty-two-characters';

let world: BackendWorld;
let peer: Backend;
let admin: pg.Client;
const clients: SupabaseClient[] = [];

beforeAll(async () => {
  world = await startBackendWorld(YAML, { env: { SVC_METRICS_TOKEN: TOKEN } });
  peer = await startBackend({ ...world.options, port: 0 });
  admin = new pg.Client({ connectionString: world.databaseUrl });
  await admin.connect();
});

afterAll(async () => {
  for (const client of clients) await client.realtime.disconnect();
  await peer.stop();
  await admin.end();
  await world.close();
});

const at = (url: string): SupabaseClient => {
  const client = createClient(url, world.keys.publishable);
  clients.push(client);
  return client;
};

async function joinStatus(channel: RealtimeChannel): Promise<string> {
  return await new Promise((resolve) => channel.subscribe((status: string) => resolve(status)));
}

/** Series by name and labels as they are written. */
async function scraped(): Promise<ReadonlyMap<string, number>> {
  const response = await fetch(`${world.url}/metrics`, { headers: { authorization: `Bearer ${TOKEN}` } });
  const lines = (await response.text()).split('\n').filter((line) => line.startsWith('svc_realtime_'));
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]));
}

async function series(...names: string[]): Promise<Array<number | undefined>> {
  const all = await scraped();
  return names.map((name) => all.get(`svc_realtime_${name}`));
}

test('sockets, channels, members, messages, changes and refusals are counted', async () => {
  const ann = at(world.url);
  const ben = at(world.url);
  const heard: string[] = [];
  const annsRoom = ann
    .channel('room', { config: { presence: { key: 'ann' } } })
    .on('presence', { event: 'join' }, () => heard.push('presence'))
    .on('postgres_changes', { event: 'INSERT', schema: 'public', table: 'notes' }, () => heard.push('change'))
    .on('broadcast', { event: 'hello' }, () => heard.push('broadcast'));
  expect(await joinStatus(annsRoom)).toBe('SUBSCRIBED');
  const bensRoom = ben.channel('room', { config: { broadcast: { ack: true } } });
  expect(await joinStatus(bensRoom)).toBe('SUBSCRIBED');
  expect(await joinStatus(ben.channel('private', { config: { private: true } }))).toBe('CHANNEL_ERROR');
  const keyless = new WebSocket(`${world.url.replace('http', 'ws')}/realtime/v1/websocket`);
  await new Promise((resolve) => keyless.addEventListener('error', resolve));

  await annsRoom.track({});
  await bensRoom.send({ type: 'broadcast', event: 'hello', payload: {} });
  await admin.query('insert into notes values (1), (2)');
  await expect.poll(() => heard.toSorted()).toEqual(['broadcast', 'change', 'change', 'presence']);

  await expect
    .poll(() =>
      series('sockets', 'channels{access="public"}', 'channels{access="private"}', 'present', 'peers'),
    )
    .toEqual([2, 2, 0, 1, 1]);
  expect(
    await series(
      'deliveries_total{kind="broadcast"}',
      'deliveries_total{kind="presence"}',
      'deliveries_total{kind="change"}',
      'received_total{kind="broadcast"}',
      'received_total{kind="presence"}',
      'joins_total{result="joined"}',
      'changes_total{table="public.notes"}',
      'change_delay_seconds_count',
      'source_state{state="live"}',
      'source_state{state="off"}',
      'lag_seconds',
      'skipped_total',
    ),
  ).toEqual([1, 2, 2, 1, 1, 2, 2, 2, 1, 0, 0, 0]);
  const more = await series(
    'joins_total{result="Unauthorized"}',
    'refused_sockets_total{reason="no_api_key"}',
    'probe_seconds_count',
    'visibility_seconds_count',
    'bus_sent_total',
  );
  for (const value of more) expect(value).toBeGreaterThanOrEqual(1);

  await ann.realtime.disconnect();
  await expect.poll(() => series('sockets', 'present')).toEqual([1, 0]);
  const closed = [...(await scraped())].filter(([name]) =>
    name.startsWith('svc_realtime_closed_sockets_total'),
  );
  expect(closed.reduce((sum, [, value]) => sum + value, 0)).toBe(1);
});

test('a socket counts by the close code of svc, even if the client never receives the code', async () => {
  const deaf = await RawSocket.open(world.url, world.keys.publishable);
  deaf.ws.pause();
  deaf.ws.send('no message');
  await expect.poll(() => series('closed_sockets_total{code="1003"}')).toEqual([1]);
  deaf.close();
});

test('a stream that is lost is a gap', async () => {
  const channel = at(world.url)
    .channel('gap')
    .on('postgres_changes', { event: '*', schema: 'public', table: 'notes' }, () => {});
  expect(await joinStatus(channel)).toBe('SUBSCRIBED');
  await admin.query(
    // Only metrics of this database. Other tests cover the rest.
    'select pg_terminate_backend(active_pid) from pg_replication_slots where database = current_database()',
  );
  await expect.poll(() => series('gaps_total{reason="lost"}')).toEqual([1]);
});

test('names that clients make up add no series', async () => {
  const before = new Set((await scraped()).keys());
  const client = at(world.url);
  for (let number = 0; number < 50; number += 1) {
    expect(await joinStatus(client.channel(`made-up-${number}`))).toBe('SUBSCRIBED');
  }
  const names = [...(await scraped()).keys()];
  expect(names.filter((name) => !before.has(name))).toEqual([]);
  expect(names.join()).not.toContain('made-up');
});
