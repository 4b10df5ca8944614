// Traits of changes to keys, foreign keys, checks, exclusion constraints and indexes.
import type { ChangeOf } from '../diff/change-kinds.ts';
import type { DesiredTable } from '../schema/desired.ts';
import type { LiveIndex } from '../schema/indexes.ts';
import { objectKey, tableKey } from '../schema/model.ts';
import { columnKey, columnsKey, type ObjectKey, wordKeys } from './object-key.ts';
import type { RemovedObject, TraitsByKind } from './trait-types.ts';

export const CONSTRAINT_TRAITS = {
  'add-key': {
    provides: ({ table, key }) => [`key ${columnsKey(objectKey(table), key.columns)}`],
    requires: ({ table, key }) => [
      ...columnKeys(table, key.columns),
      labelKey(table, key.label),
      ...(key.kind === 'primary' ? [primaryKey(table)] : []),
    ],
  },
  'drop-key': {
    provides: ({ table, key }) => [
      labelKey(table, key.label),
      ...(key.kind === 'primary' ? [primaryKey(table)] : []),
    ],
    requires: ({ table, key }) => columnKeys(table, key.columns),
    removes: ({ table, key }) => [removed('key', table, key.label)],
  },
  'add-foreign-key': {
    requires: (change) => {
      const { targetSchema, targetTable, targetColumns, label } = change.foreignKey;
      const target = columnsKey(tableKey(targetSchema, targetTable), targetColumns);
      return [...foreignColumns(change), labelKey(change.table, label), `key ${target}`];
    },
  },
  'drop-foreign-key': {
    provides: ({ table, foreignKey }) => [labelKey(table, foreignKey.label)],
    requires: foreignColumns,
    removes: ({ table, foreignKey }) => [removed('foreign key', table, foreignKey.label)],
  },
  'validate-foreign-key': { requires: foreignColumns },
  'add-check': {
    requires: ({ table, check, replaces }) => [
      ...columnKeys(table, check.columns),
      ...wordKeys('name', check.expression, replaces?.expression),
      labelKey(table, check.label),
    ],
    removes: ({ table, replaces }) => (replaces === null ? [] : [removed('check', table, replaces.label)]),
    holds: ({ replaces }) => [replaces?.expression],
  },
  'drop-check': {
    provides: ({ table, check }) => [labelKey(table, check.label)],
    requires: checkKeys,
    removes: ({ table, check }) => [removed('check', table, check.label)],
    holds: ({ check }) => [check.expression],
  },
  'validate-check': { requires: checkKeys },
  'add-exclusion': {
    requires: ({ table, exclusion }) => [
      ...columnKeys(table, exclusion.columns),
      ...wordKeys('name', exclusion.text),
      labelKey(table, exclusion.label),
    ],
  },
  'drop-exclusion': {
    provides: ({ table, exclusion }) => [labelKey(table, exclusion.label)],
    requires: ({ table, exclusion }) => [
      ...columnKeys(table, exclusion.columns),
      ...wordKeys('name', exclusion.definition),
    ],
    removes: ({ table, exclusion }) => [removed('exclusion', table, exclusion.label)],
    holds: ({ exclusion }) => [exclusion.definition],
  },
  'add-index': {
    provides: ({ table, index }) =>
      index.unique ? [`key ${columnsKey(objectKey(table), index.columns)}`] : [],
    requires: ({ table, index, holder }) => [
      ...columnKeys(table, [...index.columns, ...(holder?.columns ?? [])]),
      ...wordKeys('name', index.predicate),
      labelKey(table, index.label),
    ],
  },
  'drop-index': {
    provides: ({ table, index }) => [labelKey(table, index.label)],
    requires: ({ table, index }) => [
      ...columnKeys(table, index.columns),
      ...wordKeys('name', indexText(index)),
    ],
    removes: ({ table, index }) => [removed('index', table, index.label)],
    holds: ({ index }) => [indexText(index)],
  },
  'rename-index': { requires: ({ table, label }) => [labelKey(table, label)] },
} satisfies Partial<TraitsByKind>;

function columnKeys(table: DesiredTable, columns: readonly string[]): readonly ObjectKey[] {
  return columns.map((column) => columnKey(table, column));
}

function labelKey(table: DesiredTable, label: string): ObjectKey {
  return `label ${objectKey(table)} ${label}`;
}

function primaryKey(table: DesiredTable): ObjectKey {
  return `primary-key ${objectKey(table)}`;
}

function removed(kind: RemovedObject['kind'], table: DesiredTable, label: string): RemovedObject {
  return { kind, table: objectKey(table), label };
}

function foreignColumns({
  table,
  foreignKey,
}: ChangeOf<'add-foreign-key' | 'drop-foreign-key' | 'validate-foreign-key'>): readonly ObjectKey[] {
  const target = tableKey(foreignKey.targetSchema, foreignKey.targetTable);
  return [
    ...columnKeys(table, foreignKey.columns),
    ...foreignKey.targetColumns.map((column): ObjectKey => `column ${target}.${column}`),
    `table ${target}`,
  ];
}

function checkKeys({ table, check }: ChangeOf<'drop-check' | 'validate-check'>): readonly ObjectKey[] {
  return [...columnKeys(table, check.columns), ...wordKeys('name', check.expression)];
}

function indexText({ plain, predicate, definition }: LiveIndex): string | null {
  return plain ? predicate : definition;
}
