// Columns: added, retired, of another type, default or NOT NULL.
import type { Change, OnColumn } from './change.ts';
import { isTransient } from '../schema/label.ts';
import { rebuildKey, type TableDiff } from './table-diff.ts';

export function diffColumns(context: TableDiff): void {
  const { table, live, key, owned, ownership, rebuild, changes, unmanaged } = context;
  for (const column of table.columns) {
    const liveColumn = live.columns.get(column.name);
    if (!liveColumn) {
      changes.push({ kind: 'add-column', table, live, column });
      continue;
    }
    const on = { table, live, column, liveColumn };
    const changesType = liveColumn.type !== column.type;
    if (changesType) changes.push({ kind: 'change-type', ...on });
    diffDefault(on, changesType || rebuild.has(rebuildKey('default', key, column.name)), changes);
    const begun = owned.fills?.[column.name];
    if (column.notNull && !liveColumn.notNull) changes.push({ kind: 'set-not-null', ...on });
    else if (begun !== undefined) changes.push({ kind: 'resume-backfill', ...on, value: begun });
    if (!column.notNull && liveColumn.notNull) changes.push({ kind: 'drop-not-null', ...on });
  }
  const declared = new Set(table.columns.map((column) => column.name));
  for (const liveColumn of live.columns.values()) {
    const { name } = liveColumn;
    if (declared.has(name) || isTransient(name) || ownership.retiredColumns.has(`${key}.${name}`)) continue;
    if (owned.columns.includes(name)) changes.push({ kind: 'retire-column', table, live, liveColumn });
    else unmanaged.push({ table: key, what: 'column', name });
  }
}

function diffDefault(on: OnColumn, again: boolean, changes: Change[]): void {
  const { column, liveColumn } = on;
  const hasDefault = liveColumn.default !== null;
  if (column.serial && liveColumn.serial) {
    if (!liveColumn.sequenceGranted) changes.push({ kind: 'grant-sequence', ...on });
    return;
  }
  if (column.serial) {
    if (hasDefault) changes.push({ kind: 'drop-default', ...on });
    changes.push({ kind: 'make-serial', ...on });
    return;
  }
  if (liveColumn.generated) return;
  if (liveColumn.serial) changes.push({ kind: 'drop-serial', ...on });
  const wanted = column.default?.normal ?? null;
  if (wanted !== null && wanted === liveColumn.default && !again) return;
  // On a type change the old default goes first: it may have no cast to the new type, which would stop the change.
  if (hasDefault && (wanted === null || again)) changes.push({ kind: 'drop-default', ...on });
  if (wanted !== null) changes.push({ kind: 'set-default', ...on });
}
