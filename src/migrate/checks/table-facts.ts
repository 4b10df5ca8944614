// What the planner must know about the rows before it plans, and how to read a table under the names that a declared
// rename will give it.
import { inDiscardedTransaction, type Queryable } from '../../postgres/owner-database.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { quoteIdent, raw } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import type { Desired, DesiredTable } from '../schema/desired.ts';
import { keyOf, nameOf, tableKey } from '../schema/model.ts';
import { ownedOf, type Ownership } from '../schema/managed.ts';
import { isFilled } from './samples.ts';
import type { TableFacts } from '../plan/step-list.ts';
import type { Step } from '../plan/step.ts';

export function findBegunBackfills(desired: Desired, owned: Ownership): Map<string, string> {
  const begun = new Map<string, string>();
  for (const table of desired.tables) {
    const fills = ownedOf(owned, tableKey(table.schema, table.name)).fills ?? {};
    for (const column of table.columns) {
      const value = fills[column.name];
      if (value !== undefined) begun.set(column.at, value);
    }
  }
  return begun;
}

/** Backfills that go on after the transaction: recorded, so that the next run can finish what this one leaves. */
export function backfillsOf(steps: readonly Step[]): Map<string, Record<string, string>> {
  const backfills = new Map<string, Record<string, string>>();
  for (const { action, lane } of steps) {
    if (action.kind !== 'backfill' || lane === 'metadata' || lane === 'shadow') continue;
    const key = tableKey(action.schema, action.table);
    backfills.set(key, { ...backfills.get(key), [action.column]: action.value });
  }
  return backfills;
}

/** Gives a table the names it will have when the plan runs, and its expressions the extensions they may use. */
export type Prelude = (session: Queryable, table: DesiredTable) => Promise<void>;

export function preludeOf(steps: readonly Step[], extensions: readonly string[]): Prelude {
  const text = steps.map((step) => step.sql).join('; ');
  const hasTypes = steps.some((step) => step.identity.startsWith('types.'));
  return async (session, table) => {
    for (const statement of extensions) await session.query(raw(statement));
    const concerns = text.includes(nameOf(table)) || text.includes(` rename to ${quoteIdent(table.name)}`);
    if (hasTypes || concerns) await session.query(raw(text));
  };
}

export async function readRowFacts(
  session: Queryable,
  changes: readonly Change[],
  prelude: Prelude,
): Promise<Pick<TableFacts, 'nonEmpty' | 'toBackfill'>> {
  const nonEmpty = new Set<string>();
  const toBackfill = new Set<string>();
  for (const change of changes) {
    if (change.kind !== 'add-column' && change.kind !== 'set-not-null') continue;
    if (!change.live) continue;
    const { table } = change;
    try {
      await inDiscardedTransaction(session, {}, async () => {
        await prelude(session, table);
        if (await isFilled(session, table)) nonEmpty.add(keyOf(table));
      });
      if (change.kind === 'set-not-null' && change.column.model.backfill !== null)
        toBackfill.add(change.column.at);
    } catch (error) {
      if (!isDatabaseError(error)) throw error;
      nonEmpty.add(keyOf(table));
    }
  }
  return { nonEmpty, toBackfill };
}
