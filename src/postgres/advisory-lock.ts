// All advisory locks of the product. Session locks end with `unlock` or with their session. They are only ever tried,
// never waited for: the snapshot of a waiting statement would deadlock with a concurrent index build.
import type { Queryable } from './owner-database.ts';
import { raw, sql, type Sql } from './sql.ts';

/**
 * First key of each lock: the ASCII codes of `svc` as a number, in decimal because PostgreSQL 15 does not parse
 * hexadecimal.
 */
const NAMESPACE = 7_566_947;

const LOCKS = {
  /** Provisioning of the product's roles, schemas and steps: one instance runs it. */
  provision: 1,
  /** Allows one migration at a time. */
  migrate: 2,
  /** Deferred work of a migration (index builds, backfills): one instance runs it. */
  migrateBackground: 3,
  /** Time partitions: one instance creates and removes them. */
  timedPartitions: 4,
  /** Removal of expired rows and rotation of signing keys in `auth`. */
  authMaintenance: 20,
  /** Search for stored bytes that no row knows. */
  storageOrphans: 30,
  /** Partitions of stored broadcasts. */
  realtimeMaintenance: 40,
  /** Databases created from dumps. */
  importDump: 50,
  /** Tables of deliveries, when a file first needs them. */
  deliveryTables: 60,
} as const;

export type AdvisoryLock = keyof typeof LOCKS;

export function tryLock(session: Queryable, lock: AdvisoryLock): Promise<boolean> {
  return ask(session, sql`select pg_try_advisory_lock(${keys(lock)}) as locked`);
}

/** Ends with the transaction. */
export function tryTransactionLock(transaction: Queryable, lock: AdvisoryLock): Promise<boolean> {
  return ask(transaction, sql`select pg_try_advisory_xact_lock(${keys(lock)}) as locked`);
}

export async function unlock(session: Queryable, lock: AdvisoryLock): Promise<void> {
  await session.query(sql`select pg_advisory_unlock(${keys(lock)})`);
}

async function ask(db: Queryable, statement: Sql): Promise<boolean> {
  const [row] = await db.query<{ locked: boolean }>(statement);
  return row?.locked ?? false;
}

const keys = (lock: AdvisoryLock): Sql => raw(`${NAMESPACE}, ${LOCKS[lock]}`);
