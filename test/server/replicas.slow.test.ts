// Reads from a replica: never older than writes acknowledged before them. Also reads that never use a
// replica.
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { oneAddress } from '../../src/postgres/address/database-addresses.ts';
import { provision } from '../../src/provision/provision.ts';
import { startPgBouncer, withoutPgBouncer } from '../support/peers/pgbouncer.ts';
import { addressUrl } from '../support/provision.ts';
import { rounds } from '../support/rounds.ts';
import { startSilentProxy } from '../support/network/silent-proxy.ts';
import { startReplicaWorld, type Instance, type ReplicaWorld } from '../support/replica-world.ts';
import { scaled } from '../support/run/scaled.ts';

const TABLES = `tables:
  notes:
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: body, type: text }
    rls:
      - operations: [select, insert, update]
        using: "true"
        with_check: "true"
rpc:
  here:
    returns: { type: boolean }
    volatility: stable
    language: sql
    body: select pg_is_in_recovery()
  slow:
    returns: { type: boolean }
    volatility: stable
    language: plpgsql
    body: |
      begin
        perform count(*) from notes;
        if pg_is_in_recovery() then perform pg_sleep(4); end if;
        return pg_is_in_recovery();
      end
  fails:
    returns: { type: integer }
    volatility: stable
    language: sql
    body: select 1 / count(*)::int from notes where id < 0
  here_volatile:
    returns: { type: boolean }
    volatility: volatile
    language: sql
    body: select pg_is_in_recovery()
`;

let world: ReplicaWorld;

beforeAll(async () => {
  world = await startReplicaWorld(TABLES);
});
afterEach(() => world.stopInstances());
afterAll(() => world.close());

const client = ({ url }: Instance, key = world.keys.publishable): SupabaseClient =>
  createClient(url, key, { auth: { persistSession: false, autoRefreshToken: false } });

type Place = {
  readonly where: 'replica' | 'primary';
  readonly staleness: string | null;
  readonly applied: string | null;
};

/** Returns the server that runs a call of a function. */
async function ask(
  { url }: Instance,
  { name = 'here', key = world.keys.publishable, prefer = '' } = {},
): Promise<Place> {
  const response = await fetch(`${url}/rest/v1/rpc/${name}`, {
    method: 'POST',
    headers: { apikey: key, prefer, 'content-type': 'application/json' },
    body: '{}',
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${response.status} ${text}`);
  return {
    where: text === 'true' ? 'replica' : 'primary',
    staleness: response.headers.get('x-svc-staleness'),
    applied: response.headers.get('preference-applied'),
  };
}

async function onReplica(instance: Instance): Promise<void> {
  await expect.poll(async () => (await ask(instance)).where).toBe('replica');
}

/** Writes through one instance and reads the row through the other at once. */
async function writeAndRead(
  writing: Instance,
  reading: Instance,
  { from, count, writers = 16 }: { from: number; count: number; writers?: number },
): Promise<{ stale: number; failures: string[] }> {
  let next = from;
  let stale = 0;
  const failures: string[] = [];
  const run = async (): Promise<void> => {
    const [one, other] = [client(writing), client(reading)];
    while (next < from + count) {
      const id = next++;
      const { error } = await one.from('notes').insert({ id, body: `note ${id}` });
      if (error) failures.push(error.message);
      const read = await other.from('notes').select('body').eq('id', id);
      if (read.error) failures.push(read.error.message);
      else if (read.data.length === 0) stale += 1;
    }
  };
  await Promise.all(Array.from({ length: writers }, run));
  return { stale, failures };
}

test(
  'a read right after a write through another instance sees it, whatever the delay of the replica',
  { timeout: scaled(900_000) },
  async () => {
    const [writing, reading] = await Promise.all([world.instance(), world.instance()]);
    await onReplica(reading);
    const count = Math.ceil(rounds(400, 10_000, 'SVC_TEST_REPLICA_READS') / 2);
    expect(await writeAndRead(writing, reading, { from: 0, count })).toEqual({ stale: 0, failures: [] });
    await world.standby.delay(200);
    try {
      expect(await writeAndRead(writing, reading, { from: count, count })).toEqual({
        stale: 0,
        failures: [],
      });
    } finally {
      await world.standby.delay(0);
    }
  },
);

test('without writes, the replica serves reads', async () => {
  const instance = await world.instance();
  await world.caughtUp();
  await onReplica(instance);
  const places = await Promise.all(Array.from({ length: 100 }, () => ask(instance)));
  expect(places.filter(({ where }) => where === 'replica').length).toBeGreaterThanOrEqual(90);
  expect(places.every(({ staleness }) => staleness === null)).toBe(true);
});

test('writes, requests of the secret key and requests for the primary are served by the primary', async () => {
  const instance = await world.instance();
  await onReplica(instance);
  expect((await ask(instance, { name: 'here_volatile' })).where).toBe('primary');
  expect((await ask(instance, { key: world.keys.secret })).where).toBe('primary');
  expect((await ask(instance, { prefer: 'tx=commit' })).where).toBe('primary');
  expect(await ask(instance, { prefer: 'read=primary' })).toEqual({
    where: 'primary',
    staleness: null,
    applied: 'read=primary',
  });
});

test('`off` and no read address: the primary answers, and the preference is accepted', async () => {
  const [off, none] = await Promise.all([
    world.instance({ database: 'replicas: { reads: off }' }),
    world.instance({ readUrl: null }),
  ]);
  for (const instance of [off, none]) {
    expect((await ask(instance)).where).toBe('primary');
    const { applied } = await ask(instance, { prefer: 'handling=strict, read=primary' });
    expect(applied).toBe('read=primary, handling=strict');
  }
});

test('a stalled replica: the primary answers, and callers notice no difference', async () => {
  const [writing, reading] = await Promise.all([world.instance(), world.instance()]);
  await onReplica(reading);
  await world.standby.pause();
  try {
    expect(await writeAndRead(writing, reading, { from: 100_000, count: 100, writers: 4 })).toEqual({
      stale: 0,
      failures: [],
    });
    expect((await ask(reading)).where).toBe('primary');
  } finally {
    await world.standby.resume();
  }
});

test('bounded: responses contain their age, writers read their own writes, late replicas are skipped', async () => {
  const instance = await world.instance({
    database: 'replicas: { reads: bounded, max_staleness: 500ms }',
  });
  await onReplica(instance);
  const { staleness } = await ask(instance);
  expect(Number(staleness)).toBeGreaterThanOrEqual(0);
  expect(Number(staleness)).toBeLessThan(10_000);
  // The secret key can request it too.
  await expect.poll(async () => (await ask(instance, { key: world.keys.secret })).where).toBe('replica');
  await world.standby.pause();
  try {
    const { error } = await client(instance).from('notes').insert({ id: 200_000, body: 'own' });
    expect(error).toBeNull();
    const own = await client(instance).from('notes').select('body').eq('id', 200_000);
    expect(own.data).toEqual([{ body: 'own' }]);
    // Long after the write it is the bound that keeps reads away from the replica.
    await expect
      .poll(async () => {
        const { where, staleness: age } = await ask(instance, { key: world.keys.secret });
        return where === 'primary' && age === null;
      })
      .toBe(true);
  } finally {
    await world.standby.resume();
  }
  await onReplica(instance);
});

test('a statement that the replay stops is answered by the primary', async () => {
  const instance = await world.instance();
  await onReplica(instance);
  await world.standby.query(`alter system set max_standby_streaming_delay = '0'`);
  await world.standby.query('select pg_reload_conf()');
  try {
    const slow = fetch(`${instance.url}/rest/v1/rpc/slow`, {
      method: 'POST',
      headers: { apikey: world.keys.publishable, 'content-type': 'application/json' },
      body: '{}',
    });
    await expect
      .poll(async () => world.standby.query(`select 1 from pg_stat_activity where wait_event = 'PgSleep'`))
      .not.toEqual([]);
    // The replica replays an exclusive lock at once, despite running reads.
    await world.query(`alter table notes add column extra int`);
    const response = await slow;
    expect(await response.text()).toBe('false');
  } finally {
    await world.query('alter table notes drop column extra');
    await world.standby.query(`alter system reset max_standby_streaming_delay`);
    await world.standby.query('select pg_reload_conf()');
  }
});

test('an error is the one of the primary', async () => {
  const instance = await world.instance();
  await onReplica(instance);
  const response = await fetch(`${instance.url}/rest/v1/rpc/fails`, {
    method: 'POST',
    headers: { apikey: world.keys.publishable, 'content-type': 'application/json' },
    body: '{}',
  });
  expect(await response.json()).toMatchObject({ code: '22012' });
  // The divisor of a caller's statement does not depend on the replica.
  expect((await ask(instance)).where).toBe('replica');
});

test('the primary is unavailable: replicas answer with an unknown age, or requests fail', async () => {
  const proxy = await startSilentProxy(world.primary.url);
  const through = (url: string): string => proxy.through(url);
  const wait = 'failover_wait: 300ms';
  const [serving, failing] = await Promise.all([
    world.instance({ through, database: wait }),
    world.instance({ through, database: `${wait}, replicas: { without_primary: fail }` }),
  ]);
  await Promise.all([onReplica(serving), onReplica(failing)]);
  await proxy.close();
  const place = await ask(serving);
  expect(place).toMatchObject({ where: 'replica', staleness: 'unknown' });
  await expect(ask(failing)).rejects.toThrow(/503 .*PGRST000/);
  const { status } = await client(serving).from('notes').insert({ id: 300_000, body: 'nowhere' });
  expect(status).toBe(503);
});

test('several hosts, the primary is unavailable: a standby answers reads with an unknown age', async () => {
  const proxy = await startSilentProxy(world.primary.url);
  const standby = new URL(world.replicaUrl).host;
  const instance = await world.instance({
    readUrl: null,
    through: (url) => proxy.through(url).replace(/@([^/]+)\//, `@$1,${standby}/`),
    database: 'failover_wait: 300ms',
  });
  expect(await ask(instance)).toEqual({ where: 'primary', staleness: null, applied: null });
  await proxy.close();
  await expect.poll(() => ask(instance)).toMatchObject({ where: 'replica', staleness: 'unknown' });
  await proxy.reopen();
  await expect.poll(() => ask(instance)).toMatchObject({ where: 'primary', staleness: null });
  await proxy.close();
});

test('the primary serves reads while a replica is away, and the replica does when it returns', async () => {
  const proxy = await startSilentProxy(world.standby.url);
  const instance = await world.instance({ readUrl: proxy.through(world.replicaUrl) });
  await onReplica(instance);
  await proxy.close();
  for (let n = 0; n < 20; n += 1) expect((await ask(instance)).where).toBe('primary');
  const ready = await fetch(`${instance.url}/ready`);
  expect(ready.status).toBe(200);
  expect(await ready.text()).toContain('replica_missing');
  await proxy.reopen();
  await onReplica(instance);
  proxy.reset();
  // Another connection or the primary repeats statements that were cut off.
  for (let n = 0; n < 20; n += 1) await ask(instance);
  await proxy.close();
});

test.skipIf(withoutPgBouncer !== undefined)('a pooler before the replica', async () => {
  const { authenticator } = await provision(oneAddress(world.databaseUrl));
  const asAuthenticator = new URL(addressUrl(authenticator.data));
  asAuthenticator.port = new URL(world.replicaUrl).port;
  const pooler = await startPgBouncer({
    mode: 'transaction',
    users: [asAuthenticator.href],
    poolSize: 2,
  });
  try {
    const [writing, reading] = await Promise.all([
      world.instance(),
      world.instance({ readUrl: pooler.through(world.replicaUrl) }),
    ]);
    await onReplica(reading);
    expect(await writeAndRead(writing, reading, { from: 500_000, count: 100, writers: 4 })).toEqual({
      stale: 0,
      failures: [],
    });
  } finally {
    await world.stopInstances();
    await pooler.stop();
  }
});

test('a promoted replica is not read from any more', async () => {
  const instance = await world.instance();
  await onReplica(instance);
  await world.standby.query('select pg_promote()');
  expect(await writeAndRead(instance, instance, { from: 400_000, count: 50, writers: 2 })).toEqual({
    stale: 0,
    failures: [],
  });
  expect((await ask(instance)).where).toBe('primary');
});
