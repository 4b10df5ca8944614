// Traits of changes to columns.
import type { OnColumn } from '../diff/change.ts';
import { objectKey } from '../schema/model.ts';
import { columnKey, type ObjectKey, wordKeys } from './object-key.ts';
import type { AlteredObject, TraitsByKind } from './trait-types.ts';

const OF_COLUMN = { requires: requiredByColumn };

export const COLUMN_TRAITS = {
  'add-column': OF_COLUMN,
  'change-type': {
    provides: ({ table, column }) => [
      columnKey(table, column.name),
      `name ${column.name}`,
      `row-type ${table.name}`,
    ],
    requires: (change) => [...requiredByColumn(change), `in-use ${change.column.name}`],
    alters: (change) => alteredColumn(change, false),
  },
  'set-not-null': OF_COLUMN,
  'drop-not-null': OF_COLUMN,
  'set-default': OF_COLUMN,
  'drop-default': {
    ...OF_COLUMN,
    removes: ({ table, column }) => [{ kind: 'default', table: objectKey(table), label: column.name }],
  },
  'make-serial': OF_COLUMN,
  'make-identity': OF_COLUMN,
  'set-identity': OF_COLUMN,
  'drop-serial': OF_COLUMN,
  'grant-sequence': OF_COLUMN,
  'set-expression': OF_COLUMN,
  'drop-expression': {
    ...OF_COLUMN,
    // Only a virtual column is dropped and added again.
    alters: (change) => (change.liveColumn.generated === 'virtual' ? alteredColumn(change, true) : null),
  },
  'remake-column': { ...OF_COLUMN, alters: (change) => alteredColumn(change, true) },
  'resume-backfill': OF_COLUMN,
} satisfies Partial<TraitsByKind>;

function requiredByColumn({ table, column }: Pick<OnColumn, 'table' | 'column'>): readonly ObjectKey[] {
  return [columnKey(table, column.name), ...wordKeys('name', column.default, column.model.backfill)];
}

function alteredColumn({ live, liveColumn, column }: OnColumn, goes: boolean): AlteredObject | null {
  if (live === null) return null;
  const at = goes ? column.at : `${column.at}.type`;
  return { class: 'pg_class', oid: live.oid, number: liveColumn.number, at, goes };
}
