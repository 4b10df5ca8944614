// Columns: added, retired, of another type, default or NOT NULL.
import type { Change, OnColumn } from './change.ts';
import { collationDiffers } from './attributes.ts';
import type { DesiredColumn } from '../schema/desired.ts';
import type { LiveColumn } from '../schema/live/live-schema.ts';
import { isTransient } from '../schema/label.ts';
import { isClosed } from '../schema/rights/grants.ts';
import { conversionByText } from '../schema/types.ts';
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
    if (column.generated !== null || liveColumn.generated !== null) {
      if (diffGenerated(on, context)) continue;
    }
    const changesType = liveColumn.type !== column.type || collationDiffers(column, liveColumn, owned);
    if (changesType) changes.push({ kind: 'change-type', ...on, column: converted(column, liveColumn) });
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

/** With the conversion that the column needs, unless the file says another. */
function converted(column: DesiredColumn, { type }: LiveColumn): DesiredColumn {
  const using = column.model.using ?? conversionByText(column.name, type, column.typeSql);
  return using === column.model.using ? column : { ...column, model: { ...column.model, using } };
}

function diffDefault(on: OnColumn, again: boolean, changes: Change[]): void {
  const { column, liveColumn } = on;
  // The expression of a generated column is no default.
  const current = liveColumn.generated === null ? liveColumn.default : null;
  const hasDefault = current !== null;
  if (column.serial && liveColumn.serial) {
    if (!sameIdentity(column, liveColumn)) changes.push({ kind: 'set-identity', ...on });
    else if (!liveColumn.sequenceGranted && !isClosed(on.table.model.grants))
      changes.push({ kind: 'grant-sequence', ...on });
    return;
  }
  if (column.serial) {
    if (hasDefault) changes.push({ kind: 'drop-default', ...on });
    changes.push({ kind: column.model.identity === undefined ? 'make-serial' : 'make-identity', ...on });
    return;
  }
  if (column.generated !== null) return;
  if (liveColumn.serial) changes.push({ kind: 'drop-serial', ...on });
  const wanted = column.default?.normal ?? null;
  if (wanted !== null && wanted === current && !again) return;
  // On a type change the old default goes first: it may have no cast to the new type, which would stop the change.
  if (hasDefault && (wanted === null || again)) changes.push({ kind: 'drop-default', ...on });
  if (wanted !== null) changes.push({ kind: 'set-default', ...on });
}

/** A serial column and one that is `by_default` an identity take the same values; only `always` refuses some. */
function sameIdentity({ model: { identity } }: DesiredColumn, live: LiveColumn): boolean {
  if (identity === 'always') return live.identity === 'always';
  return identity === undefined || live.identity !== 'always';
}

/** The first major version with SET EXPRESSION. */
const SETS_EXPRESSION = 170_000;

/** True where the column is made anew: nothing else of it is left to compare. */
function diffGenerated(on: OnColumn, { serverVersion, changes }: TableDiff): boolean {
  const { column, liveColumn } = on;
  const sameType = column.type === liveColumn.type;
  if (column.generated === null) {
    changes.push({ kind: sameType ? 'drop-expression' : 'remake-column', ...on });
    return !sameType;
  }
  const sameKind = column.generated === liveColumn.generated && sameType;
  if (sameKind && column.default?.normal === liveColumn.default) return false;
  if (sameKind && column.generated === 'stored' && serverVersion >= SETS_EXPRESSION) {
    changes.push({ kind: 'set-expression', ...on });
    return false;
  }
  changes.push({ kind: 'remake-column', ...on });
  return true;
}
