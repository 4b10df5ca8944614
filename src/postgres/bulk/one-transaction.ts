// A connection of its own: one long transaction for rows by the table, or statements that no transaction may hold.
import type pg from 'pg';
import type { DatabaseAddress } from '../address/database-address.ts';
import { endClient, openClient } from '../connection.ts';
import { DatabaseLink } from '../link/database-link.ts';
import type { Queryable, Row } from '../owner-database.ts';

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

/** Works in one transaction, which is rolled back when `work` throws, and always when it only reads. */
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

/** Works on a connection of its own, each statement for itself. */
export async function oneSession<T>(
  { address, applicationName }: Omit<TransactionOptions, 'access'>,
  work: (database: Connected) => Promise<T>,
): Promise<T> {
  const client = await openClient({ address, applicationName, link: new DatabaseLink() });
  // A connection that breaks rejects the statement that runs on it; without a listener the event would end the process.
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
