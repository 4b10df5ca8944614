// Compares columns: additions, removals, types, defaults and NOT NULL.
import type { Change, OnColumn } from './change.ts';
import { collationDiffers } from './attributes.ts';
import type { DesiredColumn } from '../schema/desired.ts';
import type { LiveColumn } from '../schema/live/live-schema.ts';
import { isTransient } from '../schema/label.ts';
import { sequenceUsers } from '../schema/rights/grants.ts';
import { conversionByText, conversionToEnum } from '../schema/types.ts';
import { rebuildKey, type TableDiff } from './table-diff.ts';

export function diffColumns(context: TableDiff): void {
  const { table, live, key, owned, ownership, rebuild, changes, unmanaged } = context;
  for (const column of table.columns) {
    const liveColumn = live.columns.get(column.name);
    if (!liveColumn) {
      changes.push({ kind: 'add-column', table, live, column });
      continue;
    }
    const base = { table, live, column, liveColumn };
    if (column.generated !== null || liveColumn.generated !== null) {
      if (diffGenerated(base, context)) continue;
    }
    const changesType = liveColumn.type !== column.type || collationDiffers(column, liveColumn, owned);
    if (changesType)
      changes.push({ kind: 'change-type', ...base, column: converted(column, liveColumn, context) });
    diffDefault(base, changesType || rebuild.has(rebuildKey('default', key, column.name)), changes);
    const startedBackfill = owned.fills?.[column.name];
    if (column.notNull && !liveColumn.notNull) changes.push({ kind: 'set-not-null', ...base });
    else if (startedBackfill !== undefined)
      changes.push({ kind: 'resume-backfill', ...base, value: startedBackfill });
    if (!column.notNull && liveColumn.notNull) changes.push({ kind: 'drop-not-null', ...base });
  }
  const declared = new Set(table.columns.map((column) => column.name));
  for (const liveColumn of live.columns.values()) {
    const { name } = liveColumn;
    if (declared.has(name) || isTransient(name) || ownership.retiredColumns.has(`${key}.${name}`)) continue;
    if (owned.columns.includes(name)) changes.push({ kind: 'retire-column', table, live, liveColumn });
    else unmanaged.push({ table: key, what: 'column', name });
  }
}

/** Adds a USING expression if the change of the type needs one and the file has none. */
function converted(column: DesiredColumn, { type }: LiveColumn, { enums }: TableDiff): DesiredColumn {
  const using =
    column.model.using ??
    conversionByText(column.name, type, column.typeSql) ??
    conversionToEnum(column.name, { from: type, to: column.type }, enums);
  return using === column.model.using ? column : { ...column, model: { ...column.model, using } };
}

function diffDefault(base: OnColumn, mustRebuild: boolean, changes: Change[]): void {
  const { column, liveColumn } = base;
  // `default` of a generated column holds its expression.
  const current = liveColumn.generated === null ? liveColumn.default : null;
  const hasDefault = current !== null;
  if (column.serial && liveColumn.serial) {
    if (!sameIdentity(column, liveColumn)) changes.push({ kind: 'set-identity', ...base });
    else if (sequenceUsers(base.table.model.grants).some((role) => !liveColumn.sequenceUsers.includes(role)))
      changes.push({ kind: 'grant-sequence', ...base });
    return;
  }
  if (column.serial) {
    if (hasDefault) changes.push({ kind: 'drop-default', ...base });
    changes.push({ kind: column.model.identity === undefined ? 'make-serial' : 'make-identity', ...base });
    return;
  }
  if (column.generated !== null) return;
  if (liveColumn.serial) changes.push({ kind: 'drop-serial', ...base });
  const desired = column.default?.normal ?? null;
  if (desired !== null && desired === current && !mustRebuild) return;
  // Drop the old default before a change of the type, because it may have no cast to the new type.
  if (hasDefault && (desired === null || mustRebuild)) changes.push({ kind: 'drop-default', ...base });
  if (desired !== null) changes.push({ kind: 'set-default', ...base });
}

/** A serial column equals an identity column `by_default`. Only `always` rejects explicit values. */
function sameIdentity({ model: { identity } }: DesiredColumn, live: LiveColumn): boolean {
  if (identity === 'always') return live.identity === 'always';
  return identity === undefined || live.identity !== 'always';
}

/** First version of PostgreSQL with SET EXPRESSION. */
const SET_EXPRESSION_VERSION = 170_000;

/** Returns true if the column is recreated, so nothing else needs to be compared. */
function diffGenerated(base: OnColumn, { serverVersion, changes }: TableDiff): boolean {
  const { column, liveColumn } = base;
  const sameType = column.type === liveColumn.type;
  if (column.generated === null) {
    changes.push({ kind: sameType ? 'drop-expression' : 'remake-column', ...base });
    return !sameType;
  }
  const sameKind = column.generated === liveColumn.generated && sameType;
  if (sameKind && column.default?.normal === liveColumn.default) return false;
  if (sameKind && column.generated === 'stored' && serverVersion >= SET_EXPRESSION_VERSION) {
    changes.push({ kind: 'set-expression', ...base });
    return false;
  }
  changes.push({ kind: 'remake-column', ...base });
  return true;
}
