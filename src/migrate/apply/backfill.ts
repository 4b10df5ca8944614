// Fills a column in batches, each a short transaction, so that writers wait for no more than one of them.
import { inTransaction, type Queryable } from '../../postgres/owner-database.ts';
import { UNTOLD } from '../../postgres/replication/untold.ts';
import { quoteIdent, quoteLiteral, raw } from '../../postgres/sql.ts';
import { withLockRetries } from '../locks.ts';
import type { Action } from '../plan/step.ts';
import { nameOf } from '../schema/model.ts';
import { type ExecuteSettings, localSettings } from './settings.ts';

const FIRST_BATCH_PAGES = 64;
const BATCH_AIM_MS = 150;
const LARGEST_BATCH_PAGES = 8_192;

/**
 * By page ranges: that needs no key, reads every page once, and can start again after a crash, because a row that has its
 * value is not updated a second time.
 */
export async function backfill(
  session: Queryable,
  action: Extract<Action, { readonly kind: 'backfill' }>,
  settings: ExecuteSettings,
): Promise<void> {
  const table = nameOf({ schema: action.schema, name: action.table });
  const column = quoteIdent(action.column);
  const needed = `${column} is null${action.where === undefined ? '' : ` and (${action.where})`}`;
  const local = {
    ...localSettings(settings),
    lock_timeout: 1_000,
    ...(action.quiet ? { session_replication_role: 'replica' } : {}),
  };
  const run = (statement: string): Promise<unknown> =>
    withLockRetries(session, [`${action.schema}.${action.table}`], settings, () =>
      inTransaction(session, local, async () => {
        if (action.isCopy === true) await session.query(UNTOLD);
        return await session.query(raw(statement));
      }),
    );
  let batch = FIRST_BATCH_PAGES;
  for (const { name, pages } of await readLeaves(session, table)) {
    // A value may name the table.
    const alias = name === table ? '' : ` as ${quoteIdent(action.table)}`;
    const update = `update ${name}${alias} set ${column} = (\n${action.value}\n) where ${needed}`;
    for (let from = 0; from <= pages;) {
      const started = Date.now();
      await run(`${update} and ctid >= '(${from},0)'::tid and ctid < '(${from + batch},0)'::tid`);
      from += batch;
      const took = Math.max(Date.now() - started, 1);
      batch = Math.min(LARGEST_BATCH_PAGES, Math.max(1, Math.round((batch * BATCH_AIM_MS) / took)));
    }
  }
}

/** The table, or what of a partitioned one holds rows: only that has pages. */
async function readLeaves(
  session: Queryable,
  table: string,
): Promise<ReadonlyArray<{ readonly name: string; readonly pages: number }>> {
  return session.query<{ name: string; pages: number }>(
    raw(`select format('"%s"."%s"', replace(n.nspname, '"', '""'), replace(c.relname, '"', '""')) as name,
        (pg_relation_size(c.oid) / current_setting('block_size')::int)::int as pages
      from (select ${quoteLiteral(table)}::regclass as oid) root
      cross join lateral (select t.relid from pg_partition_tree(root.oid) t where t.isleaf union select root.oid) part
      join pg_class c on c.oid = part.relid and c.relkind = 'r' join pg_namespace n on n.oid = c.relnamespace order by c.oid`),
  );
}
