// What the planner must know about the rows before it plans, and how to look at a table under names it does not
// have yet.
import { inDiscardedTransaction, type Queryable } from '../../postgres/owner-database.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { quoteIdent, raw } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import type { Desired } from '../schema/desired.ts';
import { tableKey } from '../schema/model.ts';
import { ownedOf, type Ownership } from '../schema/managed.ts';
import { isFilled } from './row-checks.ts';
import type { TableFacts } from '../plan/step-list.ts';
import type { Step } from '../plan/step.ts';

export function findBegunFills(desired: Desired, owned: Ownership): Map<string, string> {
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

/** What goes on after the transaction must be known to whoever has to finish it. */
export function fillsOf(steps: readonly Step[]): Map<string, Record<string, string>> {
  const fills = new Map<string, Record<string, string>>();
  for (const { action, lane } of steps) {
    if (action.kind !== 'backfill' || lane === 'metadata' || lane === 'shadow') continue;
    const key = tableKey(action.schema, action.table);
    fills.set(key, { ...fills.get(key), [action.column]: action.value });
  }
  return fills;
}

export type Prelude = (schema: string, table: string) => string;

// A table about to be renamed is looked at under its new names; the look is rolled back like everything here.
export function preludeOf(steps: readonly Step[]): Prelude {
  if (steps.length === 0) return () => '';
  const text = steps.map((step) => step.sql).join('; ');
  return (schema, table) =>
    text.includes(`${quoteIdent(schema)}.${quoteIdent(table)}`) ||
    text.includes(` rename to ${quoteIdent(table)}`)
      ? text
      : '';
}

export async function look(
  session: Queryable,
  changes: readonly Change[],
  prelude: Prelude,
): Promise<Pick<TableFacts, 'nonEmpty' | 'toBackfill'>> {
  const nonEmpty = new Set<string>();
  const toFill = new Set<string>();
  for (const change of changes) {
    if (change.kind !== 'add-column' && change.kind !== 'set-not-null') continue;
    if (!change.live) continue;
    const { table } = change;
    try {
      await inDiscardedTransaction(session, {}, async () => {
        const first = prelude(table.schema, table.name);
        if (first !== '') await session.query(raw(first));
        if (await isFilled(session, table)) nonEmpty.add(tableKey(table.schema, table.name));
        if (change.kind === 'set-not-null' && change.column.model.backfill !== null)
          toFill.add(change.column.at);
      });
    } catch (error) {
      if (!isDatabaseError(error)) throw error;
      nonEmpty.add(tableKey(table.schema, table.name));
    }
  }
  return { nonEmpty, toBackfill: toFill };
}
