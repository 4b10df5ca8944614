// Partitioned tables as they are served: under the policies of the table, and maintained by one of two
// instances.
import { createClient } from '@supabase/supabase-js';
import { expect, test } from 'vitest';
import { startBackend } from '../../src/server/backend.ts';
import { startBackendWorld } from '../support/backend-world.ts';
import { collectLog } from '../support/collect-log.ts';
import { raw } from '../../src/postgres/sql.ts';

const yaml = `version: 1
tables:
  readings:
    fields:
      - { name: id, type: bigint, primary_key: true }
      - { name: at, type: timestamptz, primary_key: true, default: now() }
      - { name: seen_by, type: text }
    partition_by: { range: [at] }
    partitions: { every: 1 month, ahead: 1, from: 2025-01-01, keep: 3 months }
    rls:
      - { operations: [select, insert], check: "seen_by = 'all'" }
  notes:
    rls: []
    fields:
      - { name: reading, type: bigint }
      - { name: at, type: timestamptz }
    constraints: [{ foreign_key: [reading, at], references: "readings(id, at)" }]
`;

test('rows are read and written through the table with its policies, and old partitions are detached', async () => {
  const { log, lines } = collectLog();
  const world = await startBackendWorld(yaml, { log });
  const second = await startBackend({ ...world.options, log });
  try {
    const client = createClient(world.url, world.keys.publishable, { auth: { persistSession: false } });
    const partitions = async (): Promise<number> =>
      Number(
        (
          await world.owner.query<{ n: string }>(
            raw(`select count(*) as n from pg_inherits where inhparent = 'readings'::regclass`),
          )
        )[0]?.n,
      );
    // Partitions of this month, the next month, and those whose last row is less than three months old.
    await expect.poll(partitions).toBeLessThanOrEqual(6);
    expect(await partitions()).toBeGreaterThanOrEqual(5);
    expect((await client.from('readings').insert({ id: 1, seen_by: 'all' })).error).toBeNull();
    expect((await client.from('readings').insert({ id: 2, seen_by: 'me' })).error?.code).toBe('42501');
    await world.owner.query(raw(`insert into readings (id, seen_by) values (3, 'me')`));
    expect((await client.from('readings').select('id, notes(*)')).data).toEqual([{ id: 1, notes: [] }]);
    const month = new Date().toISOString().slice(0, 7).replace('-', '_');
    for (const key of [world.keys.publishable, world.keys.secret])
      for (const name of [`readings_${month}`, 'readings_2025_01'])
        expect((await createClient(world.url, key).from(name).select()).error?.code).toBe('PGRST205');
    const left = lines().filter(({ msg }) => msg === 'an old partition was detached');
    expect(new Set(left.map(({ partition }) => partition)).size).toBe(left.length);
    expect(left.length).toBeGreaterThan(15);
    expect(lines().filter(({ job }) => job !== undefined)).toEqual([]);
  } finally {
    await second.stop();
    await world.close();
  }
});
