// A server whose write-ahead log says too little for changes of tables, until it is set up.
import { createClient } from '@supabase/supabase-js';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { generateApiKeys } from '../../src/identity/api-key.ts';
import { startFreshCluster } from '../support/peers/fresh-cluster.ts';
import { restartServer } from '../support/peers/restart-server.ts';
import { startOn, stop } from './server-of-its-own.ts';

const TEXT = `
version: 1
project: { name: nolog }
tables:
  notes:
    realtime: true
    rls: [{ operations: [select], using: "true" }]
    fields: [{ name: id, type: bigint, primary_key: true }]
`;

test('with wal_level=replica changes come by triggers, and from the log once the server writes it', async () => {
  const cluster = await startFreshCluster();
  let server = await restartServer(cluster.url, ['wal_level=replica']);
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
  expect(JSON.stringify(lines())).toMatch(/read by triggers.*Set wal_level = logical and restart PostgreSQL/);
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
  await expect.poll(state, { timeout: 60_000 }).toBe('live');
  // The change of source is a gap, of which channels are told within two seconds.
  await expect
    .poll(() => [statuses.includes('CHANNEL_ERROR'), statuses.at(-1)], { timeout: 60_000 })
    .toEqual([true, 'SUBSCRIBED']);
  let next = 2;
  await expect
    .poll(
      async () => {
        await run(`insert into notes values (${next++})`);
        return seen.length;
      },
      { timeout: 60_000, interval: 500 },
    )
    .toBeGreaterThan(2);
}, 180_000);
