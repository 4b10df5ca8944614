// Opens a dedicated connection for one long transaction, or for statements that cannot run in a transaction.
import type pg from 'pg';
import type { DatabaseAddress } from '../address/database-address.ts';
import { endClient, openClient } from '../connection.ts';
import { DatabaseLink } from '../link/database-link.ts';
import type { Queryable, Row } from '../owner-database.ts';

export type Connected = Queryable & { readonly client: pg.Client };

/** Fixes the text form of values, which are compared as text, against server settings. */
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

/** Transaction mode. `snapshot`: a consistent view of the database that also allows temporary tables. */
export type Access = 'read only' | 'read write' | 'snapshot';

export type TransactionOptions = {
  readonly address: DatabaseAddress;
  readonly access: Access;
  readonly applicationName: string;
};

const BEGIN: Readonly<Record<Access, string>> = {
  'read only': 'begin isolation level repeatable read read only',
  'read write': 'begin isolation level read committed',
  snapshot: 'begin isolation level repeatable read',
};

/** Runs `work` in one transaction. It is rolled back when `work` throws, and always if it is read-only. */
export async function oneTransaction<T>(
  { access, ...options }: TransactionOptions,
  work: (database: Connected) => Promise<T>,
): Promise<T> {
  return await oneSession(options, async (database) => {
    const { client } = database;
    await client.query(BEGIN[access]);
    await client.query(SAME_TEXT);
    const result = await work(database);
    await client.query(access === 'read write' ? 'commit' : 'rollback');
    return result;
  });
}

/** Runs statements on a dedicated connection, each in its own implicit transaction. */
export async function oneSession<T>(
  { address, applicationName }: Omit<TransactionOptions, 'access'>,
  work: (database: Connected) => Promise<T>,
): Promise<T> {
  const client = await openClient({ address, applicationName, link: new DatabaseLink() });
  // The running statement reports a broken connection. Without a listener, the event would end the process.
  client.on('error', () => {});
  const database: Connected = {
    client,
    query: async <R extends Row = Row>(statement: Parameters<Queryable['query']>[0]): Promise<R[]> =>
      (await client.query<R>(statement.compile())).rows,
  };
  try {
    return await work(database);
  } finally {
    await endClient(client);
  }
}
