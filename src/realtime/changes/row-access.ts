// Which parts of a changed row a caller may read, and which parts filters may read.
import type { Caller } from '../../identity/caller.ts';
import type { EventKind, PublishedTable } from '../tables/published-tables.ts';
import type { RowTexts, TextRow } from '../tables/row-values.ts';
import type { DatabaseFilter } from './filter/filter-query.ts';
import type { Binding } from './subscription.ts';

/** Returns whether policies decide which rows the caller sees. */
function hasPolicies(table: PublishedTable, { role }: Caller): boolean {
  return table.hasRowSecurity && role !== 'service_role';
}

function canSelectKey(table: PublishedTable, { role }: Caller): boolean {
  return table.key.length > 0 && table.key.every((name) => table.selectable[role].has(name));
}

export function needsVisibilityCheck(table: PublishedTable, caller: Caller): boolean {
  return hasPolicies(table, caller) && canSelectKey(table, caller);
}

/** Returns false where policies decide but cannot be evaluated, because the caller may not select the primary key. */
export function canCheckRows(table: PublishedTable, caller: Caller): boolean {
  if (table.selectable[caller.role].size === 0) return false;
  return !hasPolicies(table, caller) || canSelectKey(table, caller);
}

/**
 * Returns whether the conditions on a column count. For a deleted row with policies, only conditions on the primary key
 * count.
 */
export function countingColumns(
  table: PublishedTable,
  kind: EventKind,
  caller: Caller,
): (column: string) => boolean {
  if (kind !== 'delete' || !hasPolicies(table, caller) || !table.hasWholeOld) return () => true;
  return (column) => table.key.includes(column);
}

export function countedFilters(
  table: PublishedTable,
  kind: EventKind,
  caller: Caller,
  binding: Binding,
): readonly DatabaseFilter[] {
  const counts = countingColumns(table, kind, caller);
  return binding.databaseFilters(table).filter(({ condition }) => counts(condition.column));
}

/**
 * Returns the values that filters may read. Policies cannot be evaluated for a deleted row, so filters read only its
 * primary key.
 */
export function filterTexts(
  table: PublishedTable,
  kind: EventKind | undefined,
  texts: RowTexts | undefined,
  caller: Caller,
): RowTexts {
  if (!texts) return NO_TEXTS;
  if (kind !== 'delete' || !texts.old || !hasPolicies(table, caller)) return texts;
  return { new: undefined, old: onlyKey(table, texts.old) };
}

const NO_TEXTS: RowTexts = { new: undefined, old: undefined };

export function onlyKey({ key }: PublishedTable, row: TextRow): TextRow {
  return new Map(key.map((name) => [name, row.get(name) ?? null]));
}
