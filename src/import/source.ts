// The source database of an import. One read-only transaction reads everything: it sees a consistent snapshot, cannot
// write, and makes a pooler keep one connection.
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { type Access, type Connected, oneTransaction } from '../postgres/bulk/one-transaction.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { raw, sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';
import { readDenied, requireOwnSession, unreachable } from './source-connection.ts';

/** See `oneTransaction`. */
export const inOneTransaction = <T>(
  address: DatabaseAddress,
  access: Access,
  work: (database: Connected) => Promise<T>,
): Promise<T> => oneTransaction({ address, access, applicationName: 'svc-import' }, work);

/**
 * Reads the source project. Throws a Problem if the source cannot be reached, is not a Supabase project, or is behind
 * a transaction pooler.
 */
export async function readSource<T>(
  address: DatabaseAddress,
  work: (source: Connected) => Promise<T>,
): Promise<T> {
  let isReached = false;
  try {
    return await inOneTransaction(address, 'read only', async (source) => {
      isReached = true;
      await requireOwnSession(address, source.client);
      await requireProject(address, source);
      return await work(source);
    });
  } catch (error) {
    throw isReached ? error : unreachable(address, error);
  }
}

/** Checks the source before the target is prepared, so that an unavailable source leaves no changes there. */
export const checkSource = (address: DatabaseAddress): Promise<void> => readSource(address, async () => {});

async function requireProject(address: DatabaseAddress, source: Connected): Promise<void> {
  const found = await ifReadable(source, () =>
    source.query<{ there: boolean }>(sql`
      select to_regclass('auth.users') is not null and to_regclass('storage.buckets') is not null
        and to_regclass('svc_meta.provision_step') is null as there`),
  );
  if (found === undefined)
    throw readDenied(`${address.user} has no right to the schemas auth and storage of ${address.database}`);
  if (found[0]?.there === true) return;
  throw new Problem(
    'IMP-401',
    500,
    `${address.describe()} is not a Supabase project: it lacks the tables auth.users and storage.buckets`,
    {
      hint:
        'Use the connection string of the project: Connect → Direct connection or Session pooler. ' +
        'A restored dump needs the schemas auth and storage with their rows: pg_dump writes them, ' +
        'supabase db dump leaves them out.',
    },
  );
}

/** Returns an id of the database that does not depend on its address or pooler. */
export async function readIdentity(source: Queryable): Promise<string> {
  const server = await ifReadable(source, () =>
    source.query<{ id: string }>(raw('select system_identifier::text as id from pg_control_system()')),
  );
  const [database] = await source.query<{ oid: number }>(
    sql`select oid from pg_database where datname = current_database()`,
  );
  return `${server?.[0]?.id ?? ''}/${database?.oid}`;
}

/** Returns the result of `work`, or undefined if the role lacks the permission. */
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
