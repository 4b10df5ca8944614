// Fills a column in batches. Each batch is a short transaction, so a writer waits for at most one batch.
import { inTransaction, type Queryable } from '../../postgres/owner-database.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { SUPPRESS_CHANGES } from '../../postgres/replication/suppressed-changes.ts';
import { quoteIdent, quoteLiteral, raw } from '../../postgres/sql.ts';
import { withLockRetries } from '../locks.ts';
import type { Action } from '../plan/step.ts';
import { quoteName } from '../schema/model.ts';
import { BatchSize } from './batch-size.ts';
import { type ExecuteSettings, localSettings } from './settings.ts';

/** Number of pages that one statement searches for rows to fill. The search locks no rows. */
const SEARCHED_PAGES = 1_024;
const LOCK_TIMEOUT_MS = 1_000;

type Backfill = Extract<Action, { readonly kind: 'backfill' }>;

/**
 * Fills the table in the order of its pages. This needs no key and reads every page once. It can restart after a crash,
 * because rows that already have a value are skipped.
 */
export async function backfill(
  session: Queryable,
  action: Backfill,
  settings: ExecuteSettings,
): Promise<void> {
  const size = new BatchSize();
  for (const leaf of await readLeaves(session, quoteName({ schema: action.schema, name: action.table })))
    await fillLeaf(session, { action, leaf, size }, settings);
}

type LeafFill = { readonly action: Backfill; readonly leaf: Leaf; readonly size: BatchSize };

async function fillLeaf(
  session: Queryable,
  { action, leaf, size }: LeafFill,
  settings: ExecuteSettings,
): Promise<void> {
  const table = quoteName({ schema: action.schema, name: action.table });
  const column = quoteIdent(action.column);
  const needed = `${column} is null${action.where === undefined ? '' : ` and (${action.where})`}`;
  // The value expression may refer to the table by its name.
  const alias = leaf.name === table ? '' : ` as ${quoteIdent(action.table)}`;
  const local = {
    ...localSettings(settings),
    lock_timeout: LOCK_TIMEOUT_MS,
    ...(action.quiet ? { session_replication_role: 'replica' } : {}),
  };
  const fillNext = (range: string): Promise<Batch> =>
    withLockRetries(session, [`${action.schema}.${action.table}`], settings, () =>
      inTransaction(session, local, async () => {
        const [found] = await session.query<{ rows: number; last: string | null }>(
          raw(`select count(*)::int as rows, max(tid)::text as last from (select ctid as tid from ${leaf.name}${alias}
            where ${needed} and ${range} order by ctid limit ${size.rows}) as next`),
        );
        if (!found || found.last === null) return NOTHING_LEFT;
        if (size.deadlineMs !== undefined)
          await session.query(raw(`set local statement_timeout = ${size.deadlineMs}`));
        if (action.isCopy === true) await session.query(SUPPRESS_CHANGES);
        const started = performance.now();
        await session.query(
          raw(
            `update ${leaf.name}${alias} set ${column} = (\n${action.value}\n)
              where ${needed} and ${range} and ctid <= ${quoteLiteral(found.last)}::tid`,
          ),
        );
        return { rows: found.rows, last: found.last, tookMs: performance.now() - started };
      }),
    );
  for (let page = 0; page <= leaf.pages; page += SEARCHED_PAGES) {
    let range = `ctid >= '(${page},0)'::tid and ctid < '(${page + SEARCHED_PAGES},0)'::tid`;
    for (;;) {
      const batch = await fillOrHalve(size, settings, () => fillNext(range));
      if (batch === NOTHING_LEFT) break;
      if (batch === null) continue;
      range = `ctid > ${quoteLiteral(batch.last)}::tid and ctid < '(${page + SEARCHED_PAGES},0)'::tid`;
    }
  }
}

type Batch = { readonly rows: number; readonly last: string; readonly tookMs: number };

const NOTHING_LEFT: Batch = { rows: 0, last: '', tookMs: 0 };

/** Returns null if the batch exceeded its deadline and was cancelled. The next batch is then half as large. */
async function fillOrHalve(
  size: BatchSize,
  { signal }: ExecuteSettings,
  fillNext: () => Promise<Batch>,
): Promise<Batch | null> {
  const { deadlineMs = Infinity } = size;
  const started = performance.now();
  try {
    const batch = await fillNext();
    if (batch !== NOTHING_LEFT) size.succeeded(batch.rows, batch.tookMs);
    return batch;
  } catch (error) {
    // An administrator cancels a statement before its deadline. The backfill then stops.
    const isLate = performance.now() - started >= deadlineMs && signal?.aborted !== true;
    if (!isLate || !isDatabaseError(error, 'query_canceled')) throw error;
    size.cancelled();
    return null;
  }
}

type Leaf = { readonly name: string; readonly pages: number };

/** Returns the table, or the leaf partitions of a partitioned table, because only leaves have pages. */
async function readLeaves(session: Queryable, table: string): Promise<readonly Leaf[]> {
  return session.query<Leaf>(
    raw(`select format('"%s"."%s"', replace(n.nspname, '"', '""'), replace(c.relname, '"', '""')) as name,
        (pg_relation_size(c.oid) / current_setting('block_size')::int)::int as pages
      from (select ${quoteLiteral(table)}::regclass as oid) root
      cross join lateral (select t.relid from pg_partition_tree(root.oid) t where t.isleaf union select root.oid) part
      join pg_class c on c.oid = part.relid and c.relkind = 'r' join pg_namespace n on n.oid = c.relnamespace
      order by c.oid`),
  );
}
