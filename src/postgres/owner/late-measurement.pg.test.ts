// A new connection is measured before it serves. A statement can time out during the measurement.
import pg from 'pg';
import { expect, test } from 'vitest';
import { createDatabase } from '../../../test/support/database.ts';
import { parseAddress } from '../address/parse-address.ts';
import { DatabaseLink } from '../link/database-link.ts';
import type { LinkState } from '../link/measure-link.ts';
import { OwnerDatabase } from '../owner-database.ts';
import { sql } from '../sql.ts';

/** A link whose second measurement completes only when the test resolves it. */
class SlowLink extends DatabaseLink {
  readonly begun = Promise.withResolvers<void>();
  readonly gate = Promise.withResolvers<void>();
  #measured = 0;

  override async measure(...args: Parameters<DatabaseLink['measure']>): Promise<LinkState> {
    this.#measured += 1;
    if (this.#measured === 2) {
      this.begun.resolve();
      await this.gate.promise;
    }
    return await super.measure(...args);
  }
}

test('a connection whose statement left while it was measured serves the next, and lets the pool close', async () => {
  const database = await createDatabase();
  const watcher = new pg.Client({ connectionString: database.url });
  await watcher.connect();
  const link = new SlowLink();
  const owner = new OwnerDatabase({
    address: parseAddress(database.url),
    applicationName: 'svc-test',
    max: 1,
    idleTimeoutMs: 60_000,
    connectTimeoutMs: 500,
    link,
  });
  try {
    const first = owner.query(sql`select pg_sleep(60)`).catch((error: unknown) => error);
    const activity = `from pg_stat_activity 
      where datname = current_database() and application_name = 'svc-test' and state = 'active'
        and query like '%pg_sleep%'`;
    await expect.poll(async () => (await watcher.query(`select ${activity}`)).rowCount).toBe(1);
    const waiting = owner.query(sql`select 1`).then(
      () => 'answered',
      () => 'left',
    );
    await watcher.query(`select pg_terminate_backend(pid) ${activity}`);
    await first;
    await link.begun.promise;
    expect(await waiting).toBe('left');
    link.gate.resolve();
    expect(await owner.query(sql`select 2 as two`)).toEqual([{ two: 2 }]);
    await owner.close();
  } finally {
    await watcher.end();
    await database.drop();
  }
});
