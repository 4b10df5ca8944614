// Three instances as separate processes: one is killed, another is suspended for a while. Clients of the others must
// not notice, and its own clients must reconnect.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient, type RealtimeChannel, type SupabaseClient } from '@supabase/supabase-js';
import pg from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { startSvc, type SvcProcess } from '../../support/svc-process.ts';
import { startTcpBalancer, type TcpBalancer } from '../../support/network/tcp-balancer.ts';
import { scaled } from '../../support/run/scaled.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};

const YAML = `
version: 1
project: { name: three }
database: { pool: { max: 5, min: 1 } }
realtime: { limits: { messages: 100 } }
tables:
  rows:
    realtime: true
    rls: false
    fields: [{ name: id, type: integer, primary_key: true }]
`;

let database: TestDatabase;
let directory: string;
let admin: pg.Client;
let balancer: TcpBalancer | undefined;
const instances: SvcProcess[] = [];
const clients: SupabaseClient[] = [];
let writing: NodeJS.Timeout | undefined;

beforeEach(async () => {
  database = await createDatabase();
  directory = mkdtempSync(join(tmpdir(), 'svc-three-'));
  writeFileSync(join(directory, 'svc.yaml'), YAML);
  // The first migrates.
  instances.push(await start());
  instances.push(...(await Promise.all([start(), start()])));
  admin = new pg.Client({ connectionString: database.url });
  await admin.connect();
});

afterEach(async () => {
  clearInterval(writing);
  for (const client of clients.splice(0)) {
    await client.removeAllChannels();
    await client.realtime.disconnect();
  }
  await Promise.all(
    instances.splice(0).map(async (instance) => {
      instance.child.kill('SIGCONT');
      await instance.stop('SIGKILL');
    }),
  );
  await balancer?.stop();
  balancer = undefined;
  await admin.end();
  await database.drop();
  rmSync(directory, { recursive: true, force: true });
});

async function start(): Promise<SvcProcess> {
  const env = { ...KEYS, SVC_DATABASE_URL: database.url };
  const config = join(directory, 'svc.yaml');
  return await startSvc({ command: 'serve', config, env, arguments: ['--migrate'] });
}

/** A user of the app: is present, and subscribes to changes and broadcasts. */
type Person = {
  readonly channel: RealtimeChannel;
  readonly rows: number[];
  readonly words: number[];
  /** Time by `performance.now()`. */
  readonly subscribedAt: number[];
  /** Number of entries by key. */
  readonly present: () => Record<string, number>;
};

async function person(name: string, url: string): Promise<Person> {
  const client = createClient(url, KEYS.SVC_PUBLISHABLE_KEY, { realtime: { heartbeatIntervalMs: 3_000 } });
  clients.push(client);
  const rows: number[] = [];
  const words: number[] = [];
  const subscribedAt: number[] = [];
  const channel = client
    .channel('app', { config: { presence: { key: name } } })
    .on('postgres_changes', { event: 'INSERT', schema: 'public', table: 'rows' }, (change) => {
      rows.push(Number(change.new['id']));
    })
    .on('broadcast', { event: 'word' }, ({ payload }) => {
      words.push((payload as { n: number }).n);
    })
    .on('presence', { event: 'sync' }, () => {});
  channel.subscribe((status: string) => {
    if (status !== 'SUBSCRIBED') return;
    subscribedAt.push(performance.now());
    void channel.track({ name });
  });
  await expect.poll(() => subscribedAt.length).toBe(1);
  return {
    channel,
    rows,
    words,
    subscribedAt,
    present: () =>
      Object.fromEntries(Object.entries(channel.presenceState()).map(([key, metas]) => [key, metas.length])),
  };
}

/** Inserts rows and sends broadcasts, numbered from 1, until it is stopped. Returns their number. */
function keepTalking(speaker: Person): () => Promise<number> {
  let n = 0;
  let last: Promise<unknown> = Promise.resolve();
  writing = setInterval(() => {
    n += 1;
    last = admin.query('insert into rows values ($1)', [n]);
    void speaker.channel.send({ type: 'broadcast', event: 'word', payload: { n } });
  }, 50);
  return async () => {
    clearInterval(writing);
    await last;
    return n;
  };
}

const slots = async (): Promise<number> => {
  const { rows } = await admin.query<{ count: number }>(
    'select count(*)::int as count from pg_replication_slots where database = current_database()',
  );
  return rows[0]?.count ?? -1;
};

const upTo = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1);

test('clients of a killed instance continue at another one, and other clients do not notice', async () => {
  const [one, two, victim] = instances as [SvcProcess, SvcProcess, SvcProcess];
  balancer = await startTcpBalancer([victim.url, one.url, two.url]);
  const moved = await person('moved', balancer.url);
  const ann = await person('ann', one.url);
  const ben = await person('ben', two.url);
  const everybody = { ann: 1, ben: 1, moved: 1 };
  for (const { present } of [moved, ann, ben]) await expect.poll(present).toEqual(everybody);
  const stop = keepTalking(ann);
  await expect.poll(() => [moved.rows.length, moved.words.length].every((count) => count > 20)).toBe(true);

  victim.child.kill('SIGKILL');
  const killedAt = performance.now();
  await expect.poll(slots).toBe(2);
  await expect.poll(() => moved.subscribedAt.length).toBe(2);
  const before = moved.rows.length;
  await expect.poll(() => moved.rows.length).toBeGreaterThan(before + 20);
  // The documented limit is ten seconds.
  expect(performance.now() - killedAt).toBeLessThan(scaled(10_000));

  // The entry of the killed instance leaves after its silence. The newer entry stays.
  for (const { present } of [moved, ann, ben]) {
    await expect.poll(present).toEqual(everybody);
  }
  const count = await stop();
  for (const { rows } of [ann, ben]) await expect.poll(() => rows.at(-1)).toBe(count);
  await expect.poll(() => ben.words.at(-1)).toBe(count);
  expect(ann.rows).toEqual(upTo(count));
  expect(ben.rows).toEqual(upTo(count));
  expect(ben.words).toEqual(upTo(count));
  expect([ann, ben].map(({ subscribedAt }) => subscribedAt.length)).toEqual([1, 1]);
  // The missed messages are consecutive, and no message arrived twice.
  expect(new Set(moved.rows).size).toBe(moved.rows.length);
  expect(moved.rows).toEqual([...moved.rows].sort((a, b) => a - b));
});

test('a suspended instance loses its slot and recovers, while the others continue', async () => {
  const [one, two, frozen] = instances as [SvcProcess, SvcProcess, SvcProcess];
  const inside = await person('inside', frozen.url);
  const ann = await person('ann', one.url);
  const ben = await person('ben', two.url);
  const everybody = { ann: 1, ben: 1, inside: 1 };
  for (const { present } of [inside, ann, ben]) await expect.poll(present).toEqual(everybody);
  const stop = keepTalking(ann);
  await expect.poll(() => inside.rows.length).toBeGreaterThan(20);

  frozen.child.kill('SIGSTOP');
  await expect.poll(slots).toBe(2);
  for (const { present } of [ann, ben]) {
    await expect.poll(present).toEqual({ ann: 1, ben: 1 });
  }
  const count = await stop();
  for (const { rows } of [ann, ben]) await expect.poll(() => rows.at(-1)).toBe(count);
  await expect.poll(() => ben.words.at(-1)).toBe(count);
  expect(ann.rows).toEqual(upTo(count));
  expect(ben.rows).toEqual(upTo(count));
  expect(ben.words).toEqual(upTo(count));

  frozen.child.kill('SIGCONT');
  // The library has closed the silent socket, or the channel is notified of the gap. It joins again in both cases.
  await expect.poll(() => inside.subscribedAt.length).toBeGreaterThan(1);
  // A new slot waits for all writes on the server, including those of other tests.
  await expect.poll(slots, { timeout: scaled(60_000) }).toBe(3);
  for (const { present } of [inside, ann, ben]) {
    await expect.poll(present).toEqual(everybody);
  }
  await expect
    .poll(async () => {
      const next = Math.max(0, ...inside.rows, count) + 1;
      await admin.query('insert into rows values ($1) on conflict do nothing', [next]);
      return inside.rows.some((id) => id > count);
    })
    .toBe(true);
  expect([ann, ben].map(({ subscribedAt }) => subscribedAt.length)).toEqual([1, 1]);
});
