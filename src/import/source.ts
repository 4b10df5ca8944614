// The database that is imported from. Everything is read in one read-only transaction: it is one picture of the
// database, nothing can be written there, and a pooler has to stay with one connection for it.
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { type Access, type Connected, oneTransaction } from '../postgres/bulk/one-transaction.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { raw, sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';
import { mayNotRead, requireOwnSession, unreachable } from './way-to-source.ts';

/** See `oneTransaction`. */
export const inOneTransaction = <T>(
  address: DatabaseAddress,
  access: Access,
  work: (database: Connected) => Promise<T>,
): Promise<T> => oneTransaction({ address, access, applicationName: 'svc-import' }, work);

/**
 * Reads the project that is imported. Throws a Problem when it cannot be reached, is no such project, or is behind a
 * pooler that lends its sessions by the transaction.
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

/** Before anything is prepared at the target: a source that is not to be had leaves nothing there. */
export const checkSource = (address: DatabaseAddress): Promise<void> => readSource(address, async () => {});

async function requireProject(address: DatabaseAddress, source: Connected): Promise<void> {
  const found = await ifReadable(source, () =>
    source.query<{ there: boolean }>(sql`
      select to_regclass('auth.users') is not null and to_regclass('storage.buckets') is not null
        and to_regclass('svc_meta.provision_step') is null as there`),
  );
  if (found === undefined)
    throw mayNotRead(`${address.user} has no right to the schemas auth and storage of ${address.database}`);
  if (found[0]?.there === true) return;
  throw new Problem(
    'IMP-401',
    500,
    `${address.describe()} is no Supabase project: it has no auth.users and storage.buckets of one`,
    {
      hint: 'Use the connection string of the project: Connect → Direct connection or Session pooler. A restored dump needs the schemas auth and storage with their rows: pg_dump writes them, supabase db dump leaves them out.',
    },
  );
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
