// Facts about tables that the planner needs, and the statements that apply declared renames before a table is read.
import { inDiscardedTransaction, type Queryable } from '../../postgres/owner-database.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { quoteIdent, raw } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import { type ChangeOf, ofKind } from '../diff/change-kinds.ts';
import type { Desired, DesiredTable } from '../schema/desired.ts';
import { objectKey, quoteName, tableKey } from '../schema/model.ts';
import { ownedTable, type Ownership } from '../schema/managed.ts';
import { createNewObjects } from './dry-run/new-objects.ts';
import { hasRows } from './samples.ts';
import type { TableFacts } from '../plan/step-list.ts';
import type { Step } from '../plan/step.ts';

export function findStartedBackfills(desired: Desired, owned: Ownership): Map<string, string> {
  const started = new Map<string, string>();
  for (const table of desired.tables) {
    const fills = ownedTable(owned, tableKey(table.schema, table.name)).fills ?? {};
    for (const column of table.columns) {
      const value = fills[column.name];
      if (value !== undefined) started.set(column.at, value);
    }
  }
  return started;
}

/** Returns the backfills that run after the transaction. They are recorded so that the next run can finish them. */
export function collectBackfills(steps: readonly Step[]): Map<string, Record<string, string>> {
  const backfills = new Map<string, Record<string, string>>();
  for (const { action, lane } of steps) {
    if (action.kind !== 'backfill' || lane === 'metadata' || lane === 'shadow') continue;
    const key = tableKey(action.schema, action.table);
    backfills.set(key, { ...backfills.get(key), [action.column]: action.value });
  }
  return backfills;
}

/**
 * Prepares a session for reading a table: applies the renames of the plan, and creates the extensions, types and
 * functions that expressions may use.
 */
export type Prelude = (session: Queryable, table: DesiredTable) => Promise<void>;

export function createPrelude(
  steps: readonly Step[],
  extensions: readonly string[],
  newObjects: readonly string[],
): Prelude {
  const text = steps.map((step) => step.sql).join('; ');
  const hasTypes = steps.some((step) => step.identity.startsWith('types.'));
  return async (session, table) => {
    for (const statement of extensions) await session.query(raw(statement));
    const isRenamed =
      text.includes(quoteName(table)) || text.includes(` rename to ${quoteIdent(table.name)}`);
    if (hasTypes || isRenamed) await session.query(raw(text));
    await createNewObjects(session, newObjects);
  };
}

export async function readRowFacts(
  session: Queryable,
  changes: readonly Change[],
  prelude: Prelude,
): Promise<Pick<TableFacts, 'nonEmpty' | 'toBackfill'>> {
  const nonEmpty = new Set<string>();
  const toBackfill = new Set<string>();
  for (const change of ofKind(changes, 'add-column', 'set-not-null')) {
    if (!change.live) continue;
    const { table } = change;
    try {
      await inDiscardedTransaction(session, {}, async () => {
        await prelude(session, table);
        if (await hasRows(session, table)) nonEmpty.add(objectKey(table));
      });
      if (needsBackfill(change)) toBackfill.add(change.column.at);
    } catch (error) {
      if (!isDatabaseError(error)) throw error;
      nonEmpty.add(objectKey(table));
    }
  }
  return { nonEmpty, toBackfill };
}

/** Returns whether the change fills the nulls of an existing column. */
export function needsBackfill({ kind, column }: ChangeOf<'add-column' | 'set-not-null'>): boolean {
  return kind === 'set-not-null' && column.model.backfill !== null;
}
