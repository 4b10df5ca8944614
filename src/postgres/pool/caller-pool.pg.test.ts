import { afterAll, beforeAll, expect, test } from 'vitest';
import pg from 'pg';
import { createDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { provisionAt, type ProvisionedAt } from '../../../test/support/provision.ts';
import { CallerPool, type CallerSettings } from './caller-pool.ts';
import { OwnerDatabase } from '../owner-database.ts';
import { raw, sql } from '../sql.ts';
import { parseAddress } from '../address/parse-address.ts';

let database: TestDatabase;
let roles: ProvisionedAt;
let owner: OwnerDatabase;
let pool: CallerPool;

const ANON: CallerSettings = { role: 'anon', claims: '{"role":"anon"}' };
const USER: CallerSettings = {
  role: 'authenticated',
  claims: '{"role":"authenticated","sub":"00000000-0000-0000-0000-000000000001"}',
};

beforeAll(async () => {
  database = await createDatabase();
  roles = await provisionAt(database.url);
  owner = new OwnerDatabase({
    address: parseAddress(roles.ownerUrl),
    applicationName: 'test',
    max: 2,
    idleTimeoutMs: 1000,
  });
  await owner.query(
    raw(`
    create table notes (id int primary key, body text not null, owner uuid default auth.uid());
    alter table notes enable row level security;
    create policy own on notes using (owner = auth.uid()) with check (owner = auth.uid());
    grant select, insert, update, delete on notes to anon, authenticated, service_role;
  `),
  );
  pool = newPool({ max: 3 });
});

afterAll(async () => {
  await pool.close();
  await owner.close();
  await database.drop();
});

function newPool(options: {
  max: number;
  acquireTimeoutMs?: number;
  statementTimeoutMs?: number;
}): CallerPool {
  return new CallerPool({
    address: parseAddress(roles.authenticatorUrl),
    applicationName: 'test',
    minIdle: 0,
    idleTimeoutMs: 10_000,
    ...options,
  });
}

function one(text: string, ...values: (string | null)[]): [{ text: string; values: (string | null)[] }] {
  return [{ text, values }];
}

async function readValue(from: CallerPool, caller: CallerSettings, text: string): Promise<string | null> {
  const [result] = await from.run(caller, one(text));
  return result?.rows[0]?.[0]?.toString() ?? null;
}

test('the statement runs under the caller role and sees the claims', async () => {
  expect(await readValue(pool, ANON, 'select current_user')).toBe('anon');
  expect(await readValue(pool, USER, 'select auth.uid()')).toBe('00000000-0000-0000-0000-000000000001');
  expect(await readValue(pool, ANON, 'select auth.uid()')).toBeNull();
});

test('nothing of a caller is left for the next one on the same connection', async () => {
  const single = newPool({ max: 1 });
  try {
    for (let round = 0; round < 20; round++) {
      expect(await readValue(single, USER, 'select auth.uid()')).toBe('00000000-0000-0000-0000-000000000001');
      expect(await readValue(single, ANON, "select current_user || coalesce(auth.uid()::text, '')")).toBe(
        'anon',
      );
    }
  } finally {
    await single.close();
  }
});

test('row-level security is the wall between callers', async () => {
  await pool.run(USER, one("insert into notes (id, body) values (1, 'mine')"));
  expect(await readValue(pool, USER, 'select count(*) from notes')).toBe('1');
  expect(await readValue(pool, ANON, 'select count(*) from notes')).toBe('0');
  await expect(pool.run(ANON, one("insert into notes (id, body) values (2, 'x')"))).rejects.toMatchObject({
    code: '42501',
  });
});

test('a failed statement undoes the whole batch and leaves the connection usable', async () => {
  const single = newPool({ max: 1 });
  try {
    const batch = [...one("insert into notes (id, body) values (3, 'a')"), ...one('select 1 / 0')];
    await expect(single.run(USER, batch)).rejects.toMatchObject({ code: '22012', severity: 'ERROR' });
    expect(await readValue(single, USER, 'select count(*) from notes where id = 3')).toBe('0');
    expect(single.size.open).toBe(1);
  } finally {
    await single.close();
  }
});

test('rollback executes, reports, and keeps nothing', async () => {
  const results = await pool.run(USER, one("insert into notes (id, body) values (4, 'x') returning id"), {
    rollback: true,
  });
  expect(results).toHaveLength(1);
  expect(results[0]?.rows[0]?.[0]?.toString()).toBe('4');
  expect(await readValue(pool, USER, 'select count(*) from notes where id = 4')).toBe('0');
});

test('a read-only run refuses to write', async () => {
  await expect(
    pool.run(USER, one("insert into notes (id, body) values (5, 'x')"), { readOnly: true }),
  ).rejects.toMatchObject({ code: '25006' });
  // The setting ended with its transaction.
  await pool.run(USER, one("insert into notes (id, body) values (5, 'x')"));
});

test('an interactive transaction commits, rolls back on an error, and rolls back on request', async () => {
  const insert = (id: number): Promise<unknown> =>
    pool.transaction(USER, (tx) =>
      tx.query(sql`insert into notes (id, body) values (${id}, 'tx') returning id`),
    );
  await insert(10);
  await expect(
    pool.transaction(USER, async (tx) => {
      await tx.query(sql`insert into notes (id, body) values (11, 'tx')`);
      throw new Error('changed my mind');
    }),
  ).rejects.toThrow('changed my mind');
  await pool.transaction(USER, (tx) => tx.query(sql`insert into notes (id, body) values (12, 'tx')`), {
    rollback: true,
  });
  const rows = await pool.transaction(USER, (tx) =>
    tx.query(sql`select id from notes where body = ${'tx'} order by id`),
  );
  expect(rows).toEqual([{ id: '10' }]);
});

test('a large value and every kind of byte travel unchanged', async () => {
  const text = `é"'\\\n\u{1F600}`.repeat(100_000);
  const [result] = await pool.run(USER, [{ text: 'select $1::text', values: [Buffer.from(text)] }]);
  expect(result?.rows[0]?.[0]?.toString('utf8')).toBe(text);
});

test('equal texts are prepared once per connection and role', async () => {
  const single = newPool({ max: 1 });
  try {
    const text = 'select count(*) from pg_prepared_statements where statement like $1';
    for (let round = 0; round < 5; round++) await single.run(USER, one('select 42 as answer'));
    await single.run(ANON, one('select 42 as answer'));
    const [result] = await single.run(USER, one(text, 'select 42%'));
    expect(result?.rows[0]?.[0]?.toString()).toBe('2');
  } finally {
    await single.close();
  }
});

test('more shapes than the limit stay prepared at most', async () => {
  const single = newPool({ max: 1 });
  try {
    for (let n = 0; n < 620; n++) await single.run(USER, one(`select ${n}`));
    expect(await readValue(single, USER, 'select 0')).toBe('0');
    expect(
      Number(await readValue(single, USER, 'select count(*) from pg_prepared_statements')),
    ).toBeLessThanOrEqual(500);
  } finally {
    await single.close();
  }
});

test('waiting for a connection ends in a clear problem, and a freed one goes to the longest waiter', async () => {
  const single = newPool({ max: 1, acquireTimeoutMs: 200 });
  try {
    const slow = single.run(USER, one('select pg_sleep(0.6)'));
    await expect(single.run(USER, one('select 1'))).rejects.toMatchObject({
      code: 'pool_exhausted',
      status: 504,
    });
    await slow;
    expect(await readValue(single, USER, 'select 1')).toBe('1');
  } finally {
    await single.close();
  }
});

test('cancelling ends the running statement only', async () => {
  const scope: { cancel: (() => void) | undefined } = { cancel: undefined };
  const running = pool.run(USER, one('select pg_sleep(30)'), { cancellable: scope });
  await expect.poll(() => scope.cancel).toBeDefined();
  const outcome = expect(running).rejects.toMatchObject({ code: '57014' });
  // The cancel may arrive before the statement has started, where it has no effect: ask until it ended.
  const again = setInterval(() => scope.cancel?.(), 50);
  await outcome;
  clearInterval(again);
  expect(scope.cancel).toBeUndefined();
  expect(await readValue(pool, USER, 'select 1')).toBe('1');
});

test('the statement timeout of the pool ends a statement', async () => {
  const quick = newPool({ max: 1, statementTimeoutMs: 100 });
  try {
    await expect(quick.run(USER, one('select pg_sleep(10)'))).rejects.toMatchObject({ code: '57014' });
  } finally {
    await quick.close();
  }
});

test('a connection killed by the server is replacedfor its running statement and for the queued ones', async () => {
  const single = newPool({ max: 1 });
  try {
    const pid = await readValue(single, USER, 'select pg_backend_pid()');
    const dying = readValue(single, USER, 'select pg_backend_pid() from pg_sleep(1)');
    const waiting = readValue(single, USER, 'select 7');
    const killer = new pg.Client(database.url);
    await killer.connect();
    await killer.query('select pg_terminate_backend($1)', [Number(pid)]);
    await killer.end();
    expect(await dying).not.toBe(pid);
    expect(await waiting).toBe('7');
  } finally {
    await single.close();
  }
});

test('a caller cannot become another role', async () => {
  await expect(pool.run(ANON, one('set local role svc_owner'))).rejects.toMatchObject({ code: '42501' });
});
