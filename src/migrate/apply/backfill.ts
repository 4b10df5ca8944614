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
  const [size] = await session.query<{ pages: number; isPartitioned: boolean }>(
    raw(`select (pg_relation_size(c.oid) / current_setting('block_size')::int)::int as pages, c.relkind = 'p' as "isPartitioned"
      from pg_class c where c.oid = ${quoteLiteral(table)}::regclass`),
  );
  const needed = `${column} is null${action.where === undefined ? '' : ` and (${action.where})`}`;
  const update = `update ${table} set ${column} = (\n${action.value}\n) where ${needed}`;
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
  // A partitioned table has no pages of its own.
  if (size?.isPartitioned) return void (await run(update));
  const pages = size?.pages ?? 0;
  let batch = FIRST_BATCH_PAGES;
  for (let from = 0; from <= pages;) {
    const started = Date.now();
    await run(`${update} and ctid >= '(${from},0)'::tid and ctid < '(${from + batch},0)'::tid`);
    from += batch;
    const took = Math.max(Date.now() - started, 1);
    batch = Math.min(LARGEST_BATCH_PAGES, Math.max(1, Math.round((batch * BATCH_AIM_MS) / took)));
  }
}
