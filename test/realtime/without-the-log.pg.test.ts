// A server whose WAL does not contain row changes, until it is configured.
import { createClient } from '@supabase/supabase-js';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { generateApiKeys } from '../../src/identity/api-key.ts';
import { startFreshCluster } from '../support/peers/fresh-cluster.ts';
import { restartServer } from '../support/peers/restart-server.ts';
import { startOn, stop } from './separate-server.ts';
import { scaled } from '../support/run/scaled.ts';

const TEXT = `
version: 1
project: { name: nolog }
tables:
  notes:
    realtime: true
    rls: [{ operations: [select], using: "true" }]
    fields: [{ name: id, type: bigint, primary_key: true }]
`;

test(
  'with wal_level=replica changes come by triggers, and from the log once the server writes it',
  { timeout: scaled(180_000) },
  async () => {
    const cluster = await startFreshCluster();
    const logged = ['logging_collector=on', 'log_directory=log', 'log_filename=server.log'];
    let server = await restartServer(cluster.url, ['wal_level=replica', ...logged]);
    const keys = generateApiKeys();
    const { backend, lines } = await startOn(cluster.url, TEXT, keys);
    const client = createClient(backend.url, keys.publishable);
    onTestFinished(async () => {
      await client.realtime.disconnect();
      await stop(backend);
      await server.stop();
      await cluster.stop();
    });
    const run = async (text: string): Promise<Array<Record<string, unknown>>> => {
      const admin = new pg.Client({ connectionString: cluster.url });
      await admin.connect();
      const { rows } = await admin.query<Record<string, unknown>>(text);
      await admin.end();
      return rows;
    };
    const state = async (): Promise<unknown> => {
      const response = await fetch(`${backend.url}/ready`);
      return ((await response.json()) as { realtime?: string }).realtime;
    };
    await expect.poll(state).toBe('triggers');
    expect(JSON.stringify(lines())).toMatch(
      /read by triggers.*Set wal_level = logical and restart PostgreSQL/,
    );
    // One line, and no error that svc provokes at the server.
    const told = lines().filter(({ msg }) =>
      String(msg).startsWith('changes of tables are read by triggers'),
    );
    expect(told).toEqual([expect.objectContaining({ level: 'info' })]);
    expect(told[0]).not.toHaveProperty('err');
    const [serverLog] = await run(`select pg_read_file('log/server.log') as text`);
    expect(serverLog?.['text']).toContain('database system is ready');
    expect(serverLog?.['text']).not.toContain('logical decoding requires');
    // While a client listens, there are up to 20.
    expect(await pollsPerSecond(cluster.url)).toBeLessThan(4);

    const seen: unknown[] = [];
    const statuses: string[] = [];
    client
      .channel('notes')
      .on('postgres_changes', { event: '*', schema: 'public', table: 'notes' }, (change) =>
        seen.push((change.new as { id?: number }).id),
      )
      .subscribe((status: string) => statuses.push(status));
    await expect.poll(() => statuses).toEqual(['SUBSCRIBED']);
    await run('insert into notes values (1)');
    await expect.poll(() => seen).toEqual([1]);

    server = await restartServer(cluster.url, ['wal_level=logical']);
    await expect.poll(state, { timeout: scaled(60_000) }).toBe('live');
    // The change of source causes a gap. Channels are notified within two seconds.
    await expect
      .poll(() => [statuses.includes('CHANNEL_ERROR'), statuses.at(-1)], { timeout: scaled(60_000) })
      .toEqual([true, 'SUBSCRIBED']);
    let next = 2;
    await expect
      .poll(
        async () => {
          await run(`insert into notes values (${next++})`);
          return seen.length;
        },
        { timeout: scaled(60_000), interval: 500 },
      )
      .toBeGreaterThan(2);
  },
);

/** Returns the rate between two heartbeats of the reader, which are at least five seconds apart. */
async function pollsPerSecond(url: string): Promise<number> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const read = async (): Promise<{ seconds: number; count: number }> => {
    const { rows } = await client.query<{ seconds: number; count: number }>(
      `select extract(epoch from seen_at)::float8 as seconds,
        (select (seq_scan + coalesce(idx_scan, 0))::int from pg_stat_all_tables
          where schemaname = 'realtime' and relname = 'changes') as count from realtime.change_reader`,
    );
    return rows[0] ?? { seconds: 0, count: 0 };
  };
  const nextHeartbeat = async (after: number): Promise<{ seconds: number; count: number }> => {
    await expect
      .poll(async () => (await read()).seconds, { interval: 500, timeout: scaled(30_000) })
      .toBeGreaterThan(after);
    return await read();
  };
  const start = await nextHeartbeat((await read()).seconds);
  const end = await nextHeartbeat(start.seconds);
  await client.end();
  return (end.count - start.count) / (end.seconds - start.seconds);
}
