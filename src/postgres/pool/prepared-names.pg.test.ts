// Checks names of prepared statements on a session that other clients use too.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { startPgBouncer, withoutPgBouncer, withoutTracking } from '../../../test/support/peers/pgbouncer.ts';
import { provisionAt, type ProvisionedAt } from '../../../test/support/provision.ts';
import { rounds } from '../../../test/support/rounds.ts';
import { CallerPool, type CallerSettings, type DatabaseRole } from './caller-pool.ts';
import { OwnerDatabase } from '../owner-database.ts';
import { raw } from '../sql.ts';
import { statementName } from '../statement-name.ts';
import { parseAddress } from '../address/parse-address.ts';
import { DatabaseLink } from '../link/database-link.ts';

let database: TestDatabase;
let roles: ProvisionedAt;
let owner: OwnerDatabase;

const ROLES: readonly DatabaseRole[] = ['anon', 'authenticated', 'service_role'];
const TABLES = ['apples', 'pears', 'plums', 'figs'];
const as = (role: DatabaseRole): CallerSettings => ({ role, claims: `{"role":"${role}"}` });

beforeAll(async () => {
  database = await createDatabase();
  roles = await provisionAt(database.url);
  owner = new OwnerDatabase({
    address: parseAddress(roles.ownerUrl),
    applicationName: 'test',
    max: 2,
    idleTimeoutMs: 1000,
  });
  for (const table of TABLES) {
    await owner.query(
      raw(`create table ${table} (id int, role text default current_user, kind text default '${table}');
        grant select, insert on ${table} to anon, authenticated, service_role`),
    );
    await owner.query(raw(`insert into ${table} (id) select generate_series(1, 5)`));
  }
  await owner.query(
    raw(`create sequence runs; grant usage on sequence runs to anon;
      create function forgets() returns text language plpgsql as
        $$ begin execute 'deallocate all'; return 'forgotten'; end $$;
      create function takes(name text) returns void language plpgsql as
        $$ begin execute format('prepare %I as select ''another client''''s''', name); end $$;
      create function raises(state text) returns void language plpgsql as
        $$ begin perform nextval('runs'); raise sqlstate '26000'; end $$;`),
  );
});

afterAll(async () => {
  await owner.close();
  await database.drop();
});

function newPool(url: string, max: number, link?: DatabaseLink): CallerPool {
  return new CallerPool({
    address: parseAddress(url),
    applicationName: 'test',
    minIdle: 0,
    idleTimeoutMs: 10_000,
    max,
    link,
  });
}

async function readValue(
  pool: CallerPool,
  text: string,
  values: readonly string[] = [],
  role: DatabaseRole = 'anon',
): Promise<string | undefined> {
  const [result] = await pool.run(as(role), [{ text, values }]);
  return result?.rows[0]?.[0]?.toString();
}

test('a name identifies role and text, and is short enough that PostgreSQL does not truncate it', () => {
  const name = statementName('anon', 'select 1');
  expect(name).toMatch(/^[\w-]{22}$/);
  expect(new Set([name, statementName('', 'select 1'), statementName('anon', 'select 2')]).size).toBe(3);
  expect(statementName('an', 'onselect 1')).not.toBe(statementName('anon', 'select 1'));
  // The same in every process and in every version: this is what other instances find on a session.
  expect(name).toBe('Eh-m3rP7mI5QlLCtH3AwvW');
});

test('a session that has forgotten its statements, or has others under their names, answers as before', async () => {
  const pool = newPool(roles.authenticatorUrl, 1);
  try {
    const ask = (): Promise<string | undefined> => readValue(pool, "select 'ours'");
    expect(await ask()).toBe('ours');
    expect(await readValue(pool, 'select forgets()')).toBe('forgotten');
    expect(await ask()).toBe('ours');
    expect(pool.size.open).toBe(1);
  } finally {
    await pool.close();
  }
  const second = newPool(roles.authenticatorUrl, 1);
  try {
    const text = "select 'mine'";
    await readValue(second, 'select takes($1)', [statementName('anon', text)]);
    expect(await readValue(second, text)).toBe('mine');
    const insert = 'insert into apples (id) values ($1) returning id';
    await readValue(second, 'select takes($1)', [statementName('anon', insert)]);
    expect(await readValue(second, insert, ['100'])).toBe('100');
    expect(await readValue(second, 'select count(*) from apples where id = 100')).toBe('1');
  } finally {
    await second.close();
  }
});

test('what a function raises under the same codes is its own, and it runs once', async () => {
  const pool = newPool(roles.authenticatorUrl, 2);
  try {
    await expect(readValue(pool, "select raises('26000')")).rejects.toMatchObject({ code: '26000' });
    const [row] = await owner.query<{ runs: string }>(raw('select last_value as runs from runs'));
    expect(Number(row?.runs)).toBe(1);
    await owner.query(raw("select nextval('runs')"));
    expect(await readValue(pool, "select nextval('runs')")).toBe('3');
  } finally {
    await pool.close();
  }
});

test.skipIf(withoutPgBouncer !== undefined)(
  'two instances behind a pooler that is not noticed: every answer is its own',
  async () => {
    const pooler = await startPgBouncer({
      mode: 'transaction',
      users: [roles.authenticatorUrl],
      poolSize: 3,
      ignoresOptions: true,
    });
    const pools = [1, 2].map(() => newPool(pooler.through(roles.authenticatorUrl), 6));
    try {
      await answersAreTheirOwn(pools);
    } finally {
      await pooler.stop();
    }
  },
);

test.skipIf(withoutTracking !== undefined)(
  'two instances behind a pooler that tracks names: every answer is its own',
  async () => {
    const pooler = await startPgBouncer({
      mode: 'transaction',
      users: [roles.authenticatorUrl],
      poolSize: 3,
      // Fewer than there are names.
      maxPreparedStatements: 20,
    });
    const links = [new DatabaseLink(), new DatabaseLink()];
    const pools = links.map((link) => newPool(pooler.through(roles.authenticatorUrl), 6, link));
    try {
      await answersAreTheirOwn(pools);
    } finally {
      await pooler.stop();
    }
    expect(links.map(({ state }) => state?.verdict)).toEqual([
      'pooled, tracks names',
      'pooled, tracks names',
    ]);
  },
);

async function answersAreTheirOwn(pools: readonly CallerPool[]): Promise<void> {
  await owner.query(raw(TABLES.map((table) => `delete from ${table} where id >= 1000`).join(';')));
  const wrong: string[] = [];
  const check = (label: string, found: unknown, expected: unknown): void => {
    if (found !== expected) wrong.push(`${label}: ${String(found)} instead of ${String(expected)}`);
  };
  let written = 0;
  const worker = async (seed: number): Promise<void> => {
    for (let round = 0; round < rounds(30, 400); round++) {
      const number = seed * 7919 + round * 104_729;
      const pool = pools[number % 2];
      const role = ROLES[number % 3] ?? 'anon';
      const table = TABLES[number % 4] ?? '';
      if (!pool) return;
      if (number % 11 === 0) {
        const id = 1_000 + number;
        await pool.run(as(role), [{ text: `insert into ${table} (id) values ($1)`, values: [String(id)] }]);
        written += 1;
      } else if (number % 13 === 0) {
        const [row] = await pool.transaction(as(role), (transaction) =>
          transaction.query(raw(`select kind || current_user as answer from ${table} limit 1`)),
        );
        check('transaction', row?.['answer'], table + role);
      } else {
        const text = `select kind || current_user || $1 from ${table} where id <= 5 limit 1 offset ${number % 5}`;
        const [result] = await pool.run(as(role), [{ text, values: [String(number)] }], {
          readOnly: number % 2 === 0,
          rollback: number % 17 === 0,
        });
        check(text, result?.rows[0]?.[0]?.toString(), `${table}${role}${number}`);
      }
    }
  };
  try {
    await Promise.all(Array.from({ length: 24 }, (_, seed) => worker(seed)));
    expect(wrong).toEqual([]);
    const counts = await Promise.all(
      TABLES.map((table) =>
        owner.query<{ n: string }>(raw(`select count(*) as n from ${table} where id >= 1000`)),
      ),
    );
    expect(counts.reduce((sum, [row]) => sum + Number(row?.n), 0)).toBe(written);
  } finally {
    for (const pool of pools) pool.destroy();
  }
}
