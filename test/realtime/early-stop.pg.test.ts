// A server that is stopped as soon as it serves.
import { expect, test } from 'vitest';
import { startBackend } from '../../src/server/backend.ts';
import { startBackendWorld } from '../support/backend-world.ts';
import pg from 'pg';

test('an immediate stop ends everything that a start has begun', async () => {
  const world = await startBackendWorld('version: 1\nproject: { name: early }\ntables: {}\n');
  const admin = new pg.Client({ connectionString: world.databaseUrl });
  await admin.connect();
  try {
    await world.backend.stop();
    for (let round = 0; round < 5; round++) {
      const backend = await startBackend({ ...world.options, port: 0 });
      await backend.stop();
    }
    const sessions = async (): Promise<unknown[]> => {
      const { rows } = await admin.query<{ name: string }>(
        `select application_name as name from pg_stat_activity where datname = current_database()
          and application_name ~ 'svc/[0-9a-f]{8}/'`,
      );
      return rows;
    };
    await expect.poll(sessions).toEqual([]);
  } finally {
    await admin.end();
    await world.close();
  }
});
