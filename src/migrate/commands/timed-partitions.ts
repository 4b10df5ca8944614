// Partitions by time: made ahead, and taken out of their table when they are old. One instance of all does it. Both take a
// strong lock for a moment, so neither waits for it: what does not succeed is tried again.
import type { Config } from '../../config/config.ts';
import type { Log } from '../../log/log.ts';
import { tryTransactionLock } from '../../postgres/advisory-lock.ts';
import type { OwnerDatabase, Queryable } from '../../postgres/owner-database.ts';
import { raw, sql } from '../../postgres/sql.ts';
import { timedTables, type TimedTable } from '../schema/declared.ts';
import { keyOf, nameOf } from '../schema/model.ts';
import { makeMorePartitionsSql, retirePartitionSql, spanText } from '../schema/partitions.ts';
import { recordRetiredPartition } from '../state/managed-objects.ts';

const EVERY_MS = 10 * 60_000;
const LOCK_TIMEOUT_MS = 300;
/** Of a table at once; each takes a lock of its own. */
const MOST_RETIRED = 100;

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
      this.#running = keepPartitions(owner, timedTables(config()), log);
    };
    round();
    this.#timer = setInterval(round, EVERY_MS).unref();
  }

  /** Waits for what is being done. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#running;
  }
}

/** One round; never rejects. */
export async function keepPartitions(
  owner: OwnerDatabase,
  tables: readonly TimedTable[],
  log: Log,
): Promise<void> {
  for (const table of tables) {
    try {
      await attempt(owner, async (db) => db.query(raw(makeMorePartitionsSql(table, table.kept))));
      for (const old of await attempt(owner, async (db) => readOld(db, table)))
        await attempt(owner, async (db) => {
          await db.query(raw(retirePartitionSql(table, { ...old, parent: null })));
          await recordRetiredPartition(db, keyOf(old));
          log.info({ table: keyOf(table), partition: keyOf(old) }, 'a partition is old and left its table');
        });
    } catch (error) {
      log.warn(
        { err: error, job: 'partitions', table: keyOf(table) },
        'could not look after the partitions of a table; trying again later',
      );
    }
  }
}

/** Nothing where another instance is at it. */
async function attempt<T>(
  owner: OwnerDatabase,
  work: (db: Queryable) => Promise<readonly T[] | void>,
): Promise<readonly T[]> {
  return owner.transaction(async (db) => {
    // Nor while somebody migrates: an index is built for the partitions that are there.
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

type Named = { readonly schema: string; readonly name: string };

async function readOld(db: Queryable, table: TimedTable): Promise<readonly Named[]> {
  const { keep } = table.kept;
  if (keep === null) return [];
  return db.query<Named>(sql`
    select n.nspname as schema, c.relname as name
    from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_namespace n on n.oid = c.relnamespace
      cross join lateral substring(pg_get_expr(c.relpartbound, c.oid) from ' TO [(]''(.*)''[)]$') as until
    where i.inhparent = to_regclass(${nameOf(table)}) and until::timestamptz <= now() - ${spanText(keep)}::interval
    order by until::timestamptz limit ${MOST_RETIRED}`);
}
