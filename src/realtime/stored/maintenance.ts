// Creates the partitions of `realtime.messages` ahead, drops them by age, and removes the rows of the bus and the
// probes. One instance at a time does it.
import type { FeatureContext } from '../../http/feature.ts';
import { tryTransactionLock } from '../../postgres/advisory-lock.ts';
import type { Config } from '../../config/config.ts';
import { ident, raw, sql } from '../../postgres/sql.ts';

const MAINTENANCE_INTERVAL_MS = 10 * 60_000;
const DAYS_AHEAD = 7;
/**
 * Creating and dropping partitions must not wait for locks, because later statements would wait too. The next run
 * retries.
 */
const LOCK_TIMEOUT_MS = 300;
/** Rows that were rolled back stay in the file until it is truncated. */
const MAX_PROBE_BYTES = 64 * 1024 * 1024;

export type Maintenance = {
  /** Waits for the current run. */
  close(): Promise<void>;
};

export function startMaintenance(context: FeatureContext): Maintenance {
  const config = (): Config => context.snapshot().config;
  let isClosed = false;
  const run = async (): Promise<void> => {
    try {
      await maintain({ ...context, config });
    } catch (error) {
      if (isClosed) return;
      context.log.warn({ err: error, job: 'realtime messages' }, 'stored messages could not be maintained');
    }
  };
  let running = run();
  const timer = setInterval(() => {
    running = run();
  }, MAINTENANCE_INTERVAL_MS).unref();
  return {
    async close() {
      isClosed = true;
      clearInterval(timer);
      await running;
    },
  };
}

type MaintenanceContext = Pick<FeatureContext, 'owner' | 'now' | 'log'> & { readonly config: () => Config };

export async function maintain({ owner, config, now, log }: MaintenanceContext): Promise<void> {
  const { retentionMs } = config().realtime;
  const oldest = new Date(now().getTime() - retentionMs);
  const isOurs = await owner.transaction(async (db) => {
    if (!(await tryTransactionLock(db, 'realtimeMaintenance'))) return false;
    await db.query(sql`delete from realtime.overflow where at < now() - interval '1 minute'`);
    await db.query(sql`delete from realtime.messages_default where inserted_at < ${oldest}`);
    return true;
  });
  if (!isOurs) return;
  const [probe] = await owner.query<{ bytes: string }>(
    sql`select pg_relation_size('realtime.messages_probe') as bytes`,
  );
  const outdated = await owner.query<{ name: string }>(sql`
    select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'realtime.messages'::regclass and c.relname ~ '^messages_\\d{4}_\\d{2}_\\d{2}$'
      and to_date(substr(c.relname, 10), 'YYYY_MM_DD') + 1 <= ${oldest}::date
      and to_date(substr(c.relname, 10), 'YYYY_MM_DD') < current_date`);
  const statements = [
    // Locks the default partition exclusively, so it blocks all readers and writers.
    sql`select realtime.ensure_partitions(${DAYS_AHEAD}::integer)`,
    ...outdated.map(({ name }) => sql`drop table if exists ${ident('realtime', name)}`),
    ...(Number(probe?.bytes ?? 0) > MAX_PROBE_BYTES ? [raw('truncate realtime.messages_probe')] : []),
  ];
  for (const statement of statements) {
    try {
      await owner.transaction(async (db) => {
        await db.query(raw(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`));
        await db.query(statement);
      });
    } catch (error) {
      log.debug({ err: error }, 'a partition of stored messages is in use; trying again later');
    }
  }
}
