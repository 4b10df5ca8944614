// All advisory locks of the product. Session locks end with `unlock` or with their session. They are only ever tried,
// never waited for: the snapshot of a waiting statement would deadlock with a concurrent index build.
import type { Queryable } from './owner-database.ts';
import { raw, sql, type Sql } from './sql.ts';

/** First key of each: the ASCII codes of `svc` as one number, in decimal because PostgreSQL 15 reads no hexadecimal. */
const NAMESPACE = 7_566_947;

const LOCKS = {
  /** Roles, schemas and steps of the product's own: one instance prepares the database. */
  provision: 1,
  /** One migration at a time. */
  migrate: 2,
  /** What a migration left for later (index builds, backfills): one instance does it. */
  migrateBackground: 3,
  /** Partitions by time: one instance makes them and takes them out. */
  timedPartitions: 4,
  /** Removal of expired rows and rotation of signing keys in `auth`. */
  authMaintenance: 20,
  /** Search for stored bytes that no row knows. */
  storageOrphans: 30,
  /** Partitions of stored broadcasts. */
  realtimeMaintenance: 40,
  /** Databases that are made of dumps. */
  importDump: 50,
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
