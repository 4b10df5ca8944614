// Creates future partitions of scheduled tables and detaches old ones. One instance does this at a time. Both need a
// strong lock for a moment and use a short lock timeout; a failed attempt is retried in the next round.
import type { Config } from '../../config/config.ts';
import type { Log } from '../../log/log.ts';
import { tryTransactionLock } from '../../postgres/advisory-lock.ts';
import type { OwnerDatabase, Queryable } from '../../postgres/owner-database.ts';
import { raw, sql } from '../../postgres/sql.ts';
import { scheduledTables, type ScheduledTable } from '../schema/declared.ts';
import { objectKey, quoteName } from '../schema/model.ts';
import { extendPartitionsSql, retirePartitionSql, spanText } from '../schema/partitions.ts';
import { recordRetiredPartition } from '../state/managed-objects.ts';

const INTERVAL_MS = 10 * 60_000;
const LOCK_TIMEOUT_MS = 300;
/** Maximum number of partitions of a table to detach in one round. Each needs its own lock. */
const MAX_RETIRED = 100;

export type TimedPartitionsOptions = {
  readonly owner: OwnerDatabase;
  readonly config: () => Pick<Config, 'tables'>;
  readonly log: Log;
};

export class TimedPartitions {
  readonly #options: TimedPartitionsOptions;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(options: TimedPartitionsOptions) {
    this.#options = options;
  }

  start(): void {
    const round = (): void => {
      const { owner, config, log } = this.#options;
      this.#running = maintainPartitions(owner, scheduledTables(config()), log);
    };
    round();
    this.#timer = setInterval(round, INTERVAL_MS).unref();
  }

  /** Stops the timer and waits for the current round. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#running;
  }
}

/** Runs one round. Never rejects. */
export async function maintainPartitions(
  owner: OwnerDatabase,
  tables: readonly ScheduledTable[],
  log: Log,
): Promise<void> {
  for (const table of tables) {
    try {
      await attempt(owner, async (db) => db.query(raw(extendPartitionsSql(table, table.schedule))));
      for (let count = 0; count < MAX_RETIRED; count += 1) {
        const detached = await attempt(owner, (db) => detachOldest(db, table));
        if (detached.length === 0) break;
        for (const partition of detached)
          log.info({ table: objectKey(table), partition }, 'an old partition was detached');
      }
    } catch (error) {
      log.warn(
        { err: error, job: 'partitions', table: objectKey(table) },
        'could not maintain the partitions of a table; trying again later',
      );
    }
  }
}

/** Runs `work` in a transaction. Returns an empty array if another instance holds one of the locks. */
async function attempt<T>(
  owner: OwnerDatabase,
  work: (db: Queryable) => Promise<readonly T[] | void>,
): Promise<readonly T[]> {
  return owner.transaction(async (db) => {
    // Also skip during a migration, because an index build covers only the partitions that existed at its start.
    for (const lock of ['timedPartitions', 'migrate', 'migrateBackground'] as const)
      if (!(await tryTransactionLock(db, lock))) return [];
    await db.query(
      raw(
        `set local lock_timeout = ${LOCK_TIMEOUT_MS}; set local timezone = 'UTC'; set local datestyle = 'ISO'`,
      ),
    );
    return (await work(db)) ?? [];
  });
}

/**
 * Detaches the oldest partition that is older than the schedule keeps, and returns its key. The catalog is read under
 * the lock, so that two instances do not detach the same partition.
 */
async function detachOldest(db: Queryable, table: ScheduledTable): Promise<readonly string[]> {
  const { keep } = table.schedule;
  if (keep === null) return [];
  const [oldest] = await db.query<{ schema: string; name: string }>(sql`
    select n.nspname as schema, c.relname as name
    from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_namespace n on n.oid = c.relnamespace
      cross join lateral substring(pg_get_expr(c.relpartbound, c.oid) from ' TO [(]''(.*)''[)]$') as until
    where i.inhparent = to_regclass(${quoteName(table)})
      and until::timestamptz <= now() - ${spanText(keep)}::interval
    order by until::timestamptz limit 1`);
  if (!oldest) return [];
  await db.query(raw(retirePartitionSql(table, { ...oldest, parent: null })));
  await recordRetiredPartition(db, objectKey(oldest));
  return [objectKey(oldest)];
}
