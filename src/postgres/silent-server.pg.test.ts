// Callers who leave, and a server that vanishes without a word.
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { startHaproxy, withoutHaproxy } from '../../test/support/peers/haproxy.ts';
import { startSilentProxy } from '../../test/support/network/silent-proxy.ts';
import type { Abort } from '../problem/problem.ts';
import { provisionAt, type ProvisionedAt } from '../../test/support/provision.ts';
import { CallerPool, type CallerSettings, type RunOptions } from './pool/caller-pool.ts';
import { sql } from './sql.ts';
import { parseAddress } from './address/parse-address.ts';

let database: TestDatabase;
let roles: ProvisionedAt;
let watcher: pg.Client;

const ANON: CallerSettings = { role: 'anon', claims: '{"role":"anon"}' };

beforeAll(async () => {
  database = await createDatabase();
  roles = await provisionAt(database.url);
  watcher = new pg.Client({ connectionString: database.url });
  await watcher.connect();
});

afterAll(async () => {
  await watcher.end();
  await database.drop();
});

function newPool(url: string, max: number, statementTimeoutMs?: number): CallerPool {
  return new CallerPool({
    address: parseAddress(url),
    applicationName: 'svc-test',
    // One caller uses all connections.
    reserve: 0,
    minIdle: 0,
    idleTimeoutMs: 60_000,
    acquireTimeoutMs: 60_000,
    max,
    statementTimeoutMs,
  });
}

const one = (pool: CallerPool, text: string, options?: RunOptions): Promise<unknown> =>
  pool.run(ANON, [{ text, values: [] }], options);

class Scope {
  cancel: (() => void) | undefined;
  aborted: Abort['reason'] | undefined;

  leave(): void {
    this.aborted = 'client-gone';
    this.cancel?.();
  }
}

async function running(text: string): Promise<number> {
  const { rowCount } = await watcher.query(
    `select from pg_stat_activity where application_name = 'svc-test' and state = 'active' and query like $1`,
    [`%${text}%`],
  );
  return rowCount ?? 0;
}

test('who leaves while waiting is not run, and who leaves while running is stopped', async () => {
  const pool = newPool(roles.authenticatorUrl, 4);
  try {
    for (const options of [{}, { readOnly: true }, { readOnly: true, repeatable: true }]) {
      const scopes = Array.from({ length: 40 }, () => new Scope());
      const calls = scopes.map((cancellable) =>
        one(pool, 'select pg_sleep(60), 1', { ...options, cancellable }).catch(() => 'ended'),
      );
      await expect.poll(() => running('pg_sleep(60)')).toBeGreaterThan(0);
      for (const scope of scopes) scope.leave();
      // Waits behind all of them, were they still there.
      await one(pool, 'select 1');
      await expect.poll(() => running('pg_sleep(60)')).toBe(0);
      expect(await Promise.all(calls)).toEqual(scopes.map(() => 'ended'));
      expect(scopes.every((scope) => scope.cancel === undefined)).toBe(true);
      await expect.poll(() => pool.size.waiting).toBe(0);
    }
  } finally {
    pool.destroy();
  }
});

test('who left before the statement was asked for has none, and a connection is not taken for them', async () => {
  const pool = newPool(roles.authenticatorUrl, 1);
  try {
    const gone = new Scope();
    gone.leave();
    await expect(one(pool, 'select 1', { cancellable: gone })).rejects.toMatchObject({ name: 'Abort' });
    const work = (): Promise<string> => Promise.resolve('worked');
    await expect(pool.transaction(ANON, work, { cancellable: gone })).rejects.toMatchObject({
      name: 'Abort',
    });
    expect(pool.size.open).toBe(0);
    const busy = one(pool, 'select pg_sleep(0.3)');
    const leaving = new Scope();
    const transaction = pool.transaction(ANON, work, { cancellable: leaving });
    leaving.leave();
    await expect(transaction).rejects.toMatchObject({ name: 'Abort' });
    await busy;
    expect(await pool.transaction(ANON, work)).toBe('worked');
  } finally {
    pool.destroy();
  }
});

test('who leaves in the moment in which the statement is sent is stopped all the same', async () => {
  const pool = newPool(roles.authenticatorUrl, 2);
  try {
    await Promise.all([one(pool, 'select 1'), one(pool, 'select 1')]);
    for (let round = 0; round < 10; round++) {
      const scope = new Scope();
      const call = one(pool, 'select pg_sleep(61)', { cancellable: scope }).catch(() => 'ended');
      // Now, before the write, or just after it.
      if (round % 2 === 1) await new Promise((resolve) => setImmediate(resolve));
      scope.leave();
      expect(await call).toBe('ended');
    }
    const leaving = new Scope();
    const inside = pool.transaction(
      ANON,
      async (transaction) => {
        const sleeping = transaction.query(sql`select pg_sleep(61)::text`);
        leaving.leave();
        return await sleeping;
      },
      { cancellable: leaving },
    );
    await expect(inside).rejects.toMatchObject({ code: '57014' });
    expect(await one(pool, 'select 1')).toBeDefined();
  } finally {
    pool.destroy();
  }
});

test('a server that vanished under load is dropped, and later statements succeed', async () => {
  const proxy = await startSilentProxy(roles.authenticatorUrl);
  const pool = newPool(proxy.through(roles.authenticatorUrl), 5, 1_000);
  try {
    await Promise.all(Array.from({ length: 5 }, () => one(pool, 'select pg_sleep(0.1)')));
    expect(pool.size.open).toBe(5);
    expect(await pool.answers(1_000)).toBe('yes');
    proxy.vanish();
    const lost = Array.from({ length: 4 }, () =>
      one(pool, 'insert into nothing values (1)').catch((error: unknown) => error),
    );
    // One connection is idle; a transaction holds another.
    const held = pool
      .transaction(ANON, (transaction) => transaction.query(sql`select 1`))
      .catch((error: unknown) => error);
    await expect.poll(() => pool.answers(200)).toBe('no');
    proxy.recover();
    // Writes with an unknown outcome.
    for (const error of await Promise.all(lost)) expect(error).toMatchObject({ name: 'OutcomeUnknown' });
    // It had not begun: it could begin elsewhere.
    expect(await held).toEqual([{ '?column?': '1' }]);
    expect(await Promise.all(Array.from({ length: 20 }, () => one(pool, 'select 1')))).toHaveLength(20);
    expect(await pool.answers(1_000)).toBe('yes');
    expect(pool.size.open).toBeLessThanOrEqual(5);
  } finally {
    pool.destroy();
    await proxy.close();
  }
});

test.skipIf(withoutHaproxy !== undefined)(
  'a way that freezes in the middle of statements: their places are free after the deadline, and taken again',
  async () => {
    const proxy = await startHaproxy(roles.authenticatorUrl);
    const pool = newPool(proxy.through(roles.authenticatorUrl), 3, 1_000);
    const three = (text: string, options?: RunOptions): Promise<unknown[]> =>
      Promise.all(Array.from({ length: 3 }, () => one(pool, text, options).catch((error: unknown) => error)));
    try {
      await three('select pg_sleep(0.1)');
      expect(pool.size.open).toBe(3);
      const lost = three('select pg_sleep(20)');
      // They leave in one write at the end of this turn.
      for (let turn = 0; turn < 2; turn += 1) await new Promise((resolve) => setImmediate(resolve));
      proxy.freeze();
      for (const error of await lost) expect(error).toMatchObject({ name: 'OutcomeUnknown' });
      // Nothing was waited for: the way is still frozen.
      expect(pool.size.open).toBe(0);
      proxy.thaw();
      await expect
        .poll(async () => {
          await three('select pg_sleep(0.1)');
          return pool.size.open;
        })
        .toBe(3);
    } finally {
      pool.destroy();
      await proxy.stop();
    }
  },
);

test('a statement whose cancel has no effect does not keep its place', async () => {
  const proxy = await startSilentProxy(roles.authenticatorUrl);
  const pool = newPool(proxy.through(roles.authenticatorUrl), 1);
  try {
    await one(pool, 'select 1');
    proxy.vanish();
    const scope = new Scope();
    const lost = one(pool, 'select 2', { cancellable: scope }).catch((error: unknown) => error);
    scope.leave();
    expect(await lost).toMatchObject({ name: 'OutcomeUnknown' });
    proxy.recover();
    expect(await one(pool, 'select 3')).toBeDefined();
  } finally {
    pool.destroy();
    await proxy.close();
  }
});

test('a statement that is long but allowed to be is left alone', async () => {
  const pool = newPool(roles.authenticatorUrl, 1);
  try {
    await expect(one(pool, 'select pg_sleep(5)')).resolves.toBeDefined();
  } finally {
    pool.destroy();
  }
});
