// The database that is imported from. Everything is read in one read-only transaction: it is one picture of the
// database, nothing can be written there, and a pooler has to stay with one connection for it.
import type pg from 'pg';
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { endClient, openClient } from '../postgres/connection.ts';
import { DatabaseLink } from '../postgres/link/database-link.ts';
import type { Queryable, Row } from '../postgres/owner-database.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { raw, sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';

export type Connected = Queryable & { readonly client: pg.Client };

/** What values are written as must not depend on the settings of a server: they are compared as text. */
const SAME_TEXT = `
  set local datestyle = 'ISO, YMD';
  set local intervalstyle = 'postgres';
  set local timezone = 'UTC';
  set local bytea_output = 'hex';
  set local extra_float_digits = 1;
  set local xmloption = 'content';
  set local statement_timeout = 0;
  set local idle_in_transaction_session_timeout = 0;
  set local search_path = pg_catalog`;

/** `snapshot`: one picture of the database, and temporary tables beside it. */
type Access = 'read only' | 'read write' | 'snapshot';

const BEGIN: Readonly<Record<Access, string>> = {
  'read only': 'begin isolation level repeatable read read only',
  'read write': 'begin isolation level read committed',
  snapshot: 'begin isolation level repeatable read',
};

/** Works in one transaction, which is rolled back when `work` throws, and always when it only reads. */
export async function inOneTransaction<T>(
  address: DatabaseAddress,
  access: Access,
  work: (database: Connected) => Promise<T>,
): Promise<T> {
  const client = await openClient({ address, applicationName: 'svc-import', link: new DatabaseLink() });
  // A connection that breaks rejects the statement that runs on it; without a listener the event would end the process.
  client.on('error', () => {});
  const database: Connected = {
    client,
    query: async <R extends Row = Row>(statement: Parameters<Queryable['query']>[0]): Promise<R[]> =>
      (await client.query<R>(statement.compile())).rows,
  };
  try {
    await client.query(BEGIN[access]);
    await client.query(SAME_TEXT);
    const result = await work(database);
    await client.query(access === 'read write' ? 'commit' : 'rollback');
    return result;
  } finally {
    await endClient(client);
  }
}

/** Reads the project that is imported. Throws a Problem when it cannot be reached, or is no such project. */
export async function readSource<T>(
  address: DatabaseAddress,
  work: (source: Connected) => Promise<T>,
): Promise<T> {
  return await inOneTransaction(address, 'read only', async (source) => {
    const [found] = await source.query<{ there: boolean }>(sql`
      select to_regclass('auth.users') is not null and to_regclass('storage.buckets') is not null
        and to_regclass('svc_meta.provision_step') is null as there`);
    if (found?.there !== true) {
      throw new Problem(
        'IMP-401',
        500,
        `${address.describe()} is no Supabase project: it has no auth.users and storage.buckets of one`,
        { hint: 'Use the connection string of the project: Connect → Direct connection or Session pooler.' },
      );
    }
    return await work(source);
  });
}

/** Tells two databases apart, whatever name or pooler they are reached by. */
export async function identityOf(source: Queryable): Promise<string> {
  const server = await ifReadable(source, () =>
    source.query<{ id: string }>(raw('select system_identifier::text as id from pg_control_system()')),
  );
  const [database] = await source.query<{ oid: number }>(
    sql`select oid from pg_database where datname = current_database()`,
  );
  return `${server?.[0]?.id ?? ''}/${database?.oid}`;
}

/** What `work` answers, or undefined where the role may not read it. */
export async function ifReadable<T>(source: Queryable, work: () => Promise<T>): Promise<T | undefined> {
  await source.query(raw('savepoint readable'));
  try {
    return await work();
  } catch (error) {
    if (!isDatabaseError(error, 'insufficient_privilege')) throw error;
    await source.query(raw('rollback to savepoint readable'));
    return undefined;
  }
}
