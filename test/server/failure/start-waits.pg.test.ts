// A start with a database that accepts no writes, as during a failover.
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { explain } from '../../../src/cli/exit.ts';
import { oneAddress } from '../../../src/postgres/address/database-addresses.ts';
import { provision } from '../../../src/provision/provision.ts';
import { collectLog } from '../../support/collect-log.ts';
import { createDatabase, type TestDatabase } from '../../support/database.ts';

let database: TestDatabase;
let administrator: pg.Client;

beforeAll(async () => {
  database = await createDatabase();
  administrator = new pg.Client(database.url);
  await administrator.connect();
  await become('on');
});

afterAll(async () => {
  await administrator.end();
  await database.drop();
});

async function become(readOnly: 'on' | 'off'): Promise<void> {
  const name = administrator.escapeIdentifier(new URL(database.url).pathname.slice(1));
  await administrator.query('set transaction_read_only = off');
  await administrator.query(`alter database ${name} set default_transaction_read_only = ${readOnly}`);
}

test('waits, prints the requirements of a start, and exits with 69', async () => {
  const { log } = collectLog();
  const error: unknown = await provision(oneAddress(database.url), { log, waitMs: 600 }).catch(
    (reason: unknown) => reason,
  );
  expect(error).toMatchObject({
    code: 'database_unreachable',
    message: expect.stringContaining('it is read-only'),
    hint: expect.stringContaining('A start needs a server that accepts writes'),
  });
  expect(explain(error).exitCode).toBe(69);
});

test('continues as soon as the database accepts writes', async () => {
  const { log, lines } = collectLog();
  const started = provision(oneAddress(database.url), { log, waitMs: 30_000 });
  await expect.poll(() => JSON.stringify(lines())).toContain('cannot be reached yet');
  await become('off');
  expect((await started).applied.length).toBeGreaterThan(0);
});
