// A server that lets fewer connections be open than the pool would like to have.
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../../../test/support/database.ts';
import { provisionAt, type ProvisionedAt } from '../../../../test/support/provision.ts';
import { parseAddress } from '../../address/parse-address.ts';
import { CallerPool } from '../caller-pool.ts';

const ALLOWED = 3;

let database: TestDatabase;
let roles: ProvisionedAt;

beforeAll(async () => {
  database = await createDatabase();
  roles = await provisionAt(database.url);
});

afterAll(async () => await database.drop());

test('a refused connection among those that are opened ahead: the others serve requests', async () => {
  const administrator = new pg.Client(database.url);
  await administrator.connect();
  // Counts the administrator, who is not bound by it.
  await administrator.query(`alter database "${database.name}" connection limit ${ALLOWED + 1}`);
  // Those that provisioned it may still be on their way out.
  await expect
    .poll(async () => {
      const { rows } = await administrator.query(
        'select from pg_stat_activity where datname = current_database()',
      );
      return rows.length;
    })
    .toBe(1);
  const pool = new CallerPool({
    address: parseAddress(roles.authenticatorUrl),
    applicationName: 'test',
    minIdle: ALLOWED + 2,
    idleTimeoutMs: 60_000,
    max: 20,
  });
  try {
    await expect(pool.warm()).rejects.toMatchObject({ code: '53300' });
    await expect.poll(() => pool.size).toMatchObject({ open: ALLOWED, idle: ALLOWED });
    const answer = await pool.run({ role: 'anon', claims: '{}' }, [{ text: 'select 1', values: [] }]);
    expect(answer[0]?.rows[0]?.[0]?.toString()).toBe('1');
  } finally {
    pool.destroy();
    await administrator.end();
  }
});
