// Traits of changes to tables, partitions, schemas and publications.
import type { ChangeOf } from '../diff/change-kinds.ts';
import type { DesiredTable } from '../schema/desired.ts';
import { objectKey } from '../schema/model.ts';
import { primaryKeyColumns } from '../schema/relation.ts';
import { columnKey, columnsKey, newTableKey, type ObjectKey, policiesKey, wordKeys } from './object-key.ts';
import type { TraitsByKind } from './trait-types.ts';

export const TABLE_TRAITS = {
  'create-table': {
    provides: ({ table }) => [newTableKey(table), `table-name ${table.name}`],
    requires: ({ table }) => wordKeys('name', ...table.columns.map((column) => column.default)),
  },
  'set-comment': {
    requires: ({ table, commented }) => (commented === null ? [] : [columnKey(table, commented.name)]),
  },
  'set-attribute': {},
  'retire-table': {},
  'retire-column': {},
  'drop-retired': {
    removes: ({ what, home, label }) => [{ kind: what, table: objectKey(home), label }],
  },
  'add-partition': {},
  'make-partitions': {},
  'retire-partition': {},
  'rename-partition': {},
  'create-schema': {},
  'grant-schema': {},
  'create-publication': {},
  'publish-generated': {},
  // Rows are published only after their policies exist.
  publish: { requires: ({ table }) => [policiesKey(table), ...primaryKey(table)] },
  // The former key may disappear long before the cutover, and PostgreSQL would then reject updates.
  unpublish: {},
  'keep-replica-identity': { requires: ({ table }) => primaryKey(table) },
  'set-replica-identity': {
    requires: ({ table, identity }) => (identity === 'default' ? primaryKey(table) : []),
  },
  'add-reference': { requires: referenceKeys },
  'suspend-reference': { requires: referenceKeys },
  'drop-reference': {
    requires: ({ table, trigger }) => [
      ...table.keys.flatMap((key) => key.columns.map((column) => columnKey(table, column))),
      ...wordKeys('name', trigger.definition),
    ],
  },
} satisfies Partial<TraitsByKind>;

function primaryKey(table: DesiredTable): readonly ObjectKey[] {
  return [`key ${columnsKey(objectKey(table), primaryKeyColumns(table))}`];
}

function referenceKeys({
  table,
  reference,
}: ChangeOf<'add-reference' | 'suspend-reference'>): readonly ObjectKey[] {
  const primary = table.keys.filter((key) => key.kind === 'primary').flatMap((key) => key.columns);
  return [reference.column, ...primary].map((column) => columnKey(table, column));
}
