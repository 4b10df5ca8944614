// Tests starts through a pooler: allowed modes and addresses, and the errors for others.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { startPgBouncer, withoutPgBouncer, type PgBouncer } from '../../test/support/peers/pgbouncer.ts';
import { provisionAt, type ProvisionedAt } from '../../test/support/provision.ts';
import { parseAddress } from '../postgres/address/parse-address.ts';
import { DatabaseLink } from '../postgres/link/database-link.ts';
import { OwnerDatabase } from '../postgres/owner-database.ts';
import { raw, sql } from '../postgres/sql.ts';
import { provision } from './provision.ts';
import { assertRequestSession } from './request-session.ts';

let database: TestDatabase;
let roles: ProvisionedAt;

beforeAll(async () => {
  database = await createDatabase();
  roles = await provisionAt(database.url);
});

afterAll(async () => {
  await database.drop();
});

async function throughPooler<T>(
  options: { mode: 'transaction' | 'session' | 'statement'; ignoresOptions?: boolean },
  work: (pooler: PgBouncer) => Promise<T>,
): Promise<T> {
  const users = [database.url, roles.ownerUrl, roles.authenticatorUrl];
  const pooler = await startPgBouncer({ ...options, users, poolSize: 1 });
  try {
    return await work(pooler);
  } finally {
    await pooler.stop();
  }
}

const requests = (pooler: PgBouncer): Parameters<typeof assertRequestSession>[0] => ({
  address: parseAddress(pooler.through(roles.authenticatorUrl)),
  applicationName: 'test',
  statementTimeoutMs: 30_000,
  link: new DatabaseLink(),
});

test.skipIf(withoutPgBouncer !== undefined).each([
  { mode: 'transaction', ignoresOptions: true },
  { mode: 'transaction', ignoresOptions: false },
  { mode: 'session', ignoresOptions: true },
  { mode: 'session', ignoresOptions: false },
] as const)('a pooler with %j as the only address is rejected with a hint', async (options) => {
  await throughPooler(options, async (pooler) => {
    const pooled = parseAddress(pooler.through(database.url));
    await expect(provision({ data: pooled, direct: pooled })).rejects.toMatchObject({
      code: 'direct_is_pooled',
      message:
        'SVC_DATABASE_URL goes through a pooler. Migrations, notifications and locks need a dedicated session',
      hint: 'Set SVC_DATABASE_DIRECT_URL to PostgreSQL itself.',
    });
    const direct = parseAddress(pooler.through(database.url), { name: 'SVC_DATABASE_DIRECT_URL' });
    await expect(provision({ data: parseAddress(database.url), direct })).rejects.toMatchObject({
      code: 'direct_is_pooled',
      message: expect.stringMatching(/^SVC_DATABASE_DIRECT_URL goes through a pooler/) as string,
    });
    await provision({ data: pooled, direct: parseAddress(database.url) });
    await assertRequestSession(requests(pooler));
  });
});

test.skipIf(withoutPgBouncer !== undefined)(
  'a pooler that assigns sessions per statement is rejected with a hint',
  async () => {
    await throughPooler({ mode: 'statement', ignoresOptions: true }, async (pooler) => {
      await expect(assertRequestSession(requests(pooler))).rejects.toMatchObject({
        code: 'pooler_per_statement',
        hint: expect.stringContaining('pool_mode') as string,
      });
    });
  },
);

test.skipIf(withoutPgBouncer !== undefined).each([true, false])(
  'statements of svc keep their deadlines and leave no session state (options ignored: %j)',
  async (ignoresOptions) => {
    await throughPooler({ mode: 'transaction', ignoresOptions }, async (pooler) => {
      const pools = [1, 2].map(
        () =>
          new OwnerDatabase({
            address: parseAddress(pooler.through(roles.ownerUrl)),
            applicationName: 'test',
            max: 2,
            idleTimeoutMs: 10_000,
            statementTimeoutMs: 900,
            lockTimeoutMs: 700,
            link: new DatabaseLink(),
          }),
      );
      const [one, other] = pools;
      if (!one || !other) throw new Error('two pools');
      const inEffect = raw(
        `select current_setting('statement_timeout') || ' ' || current_setting('lock_timeout')
          || ' ' || current_setting('TimeZone') as found`,
      );
      const expected = [{ found: '900ms 700ms UTC' }];
      try {
        for (const owner of [one, other, one, other]) {
          expect(await owner.query(inEffect)).toEqual(expected);
          // The same name for different statements, as in two versions of svc.
          const value = owner === one ? 'one' : 'other';
          const named = sql`select ${value}::text || ${1} as value, current_setting('lock_timeout') as lock`;
          expect(await owner.query(named, 'hot')).toEqual([{ value: `${value}1`, lock: '700ms' }]);
          expect(await owner.transaction((db) => db.query(inEffect))).toEqual(expected);
          expect(await owner.transaction((db) => db.query(inEffect), { lock_timeout: '50ms' })).toEqual([
            { found: '900ms 50ms UTC' },
          ]);
          expect(
            await owner.query(sql`select * from (values (1, 'a'), (2, 'b')) as v (n, t) where n >= ${1}`),
          ).toEqual([
            { n: 1, t: 'a' },
            { n: 2, t: 'b' },
          ]);
        }
        await expect(one.query(raw('select pg_sleep(20)'))).rejects.toMatchObject({ code: '57014' });
        await expect(one.query(sql`select pg_sleep(${20})`)).rejects.toMatchObject({ code: '57014' });
        await expect(one.query(sql`select 1 / ${0}::int as n`)).rejects.toMatchObject({ code: '22012' });
        expect(await one.query(sql`select ${3}::int as n`)).toEqual([{ n: 3 }]);
        await expect(one.session(async () => {})).rejects.toThrow('a dedicated session');
        const plain = new OwnerDatabase({
          address: parseAddress(pooler.through(roles.ownerUrl)),
          applicationName: 'test',
          max: 1,
          idleTimeoutMs: 10_000,
          link: new DatabaseLink(),
        });
        pools.push(plain);
        expect(
          await plain.query(
            raw(
              `select current_setting('statement_timeout') as deadline, count(*)::int as names
                from pg_prepared_statements`,
            ),
          ),
        ).toEqual([{ deadline: '0', names: 0 }]);
      } finally {
        for (const pool of pools) await pool.close();
      }
    });
  },
);
