// Checks whether this machine has PostgreSQL's programs for the server of this run.
import pg from 'pg';
import { inject } from 'vitest';
import { findTool } from '../../src/postgres/pg-tools.ts';

export async function canDump(): Promise<boolean> {
  const client = new pg.Client(inject('postgresUrl'));
  await client.connect();
  try {
    const { rows } = await client.query<{ major: number }>(
      `select current_setting('server_version_num')::int / 10000 as major`,
    );
    await findTool('pg_dump', rows[0]?.major ?? 0, process.env);
    await findTool('pg_restore', rows[0]?.major ?? 0, process.env);
    return true;
  } catch {
    return false;
  } finally {
    await client.end();
  }
}
