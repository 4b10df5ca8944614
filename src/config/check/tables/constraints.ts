// Constraints: one kind each, existing columns, and foreign keys that refer to a unique key.
import type { KeyPath } from '../../mistakes/mistake.ts';
import type { RawConstraint } from '../../schema/tables/constraints.ts';
import { toReferenced } from '../../schema/tables/reference.ts';
import type { RawTable } from '../../schema/tables/tables.ts';
import { type CheckContext, didYouMean } from '../context.ts';
import { isOnlyDeferrable, isUnique, tableNames, refuseDeferrable, type Tables } from './foreign-key.ts';
import { checkName } from '../name.ts';

const KINDS = ['unique', 'foreign_key', 'exclude', 'check'] as const;

/** Keys that are only valid for some kinds of constraint. */
const KEY_KINDS: ReadonlyArray<readonly [key: string, kinds: readonly string[]]> = [
  ['references', ['foreign_key']],
  ['on_delete', ['foreign_key']],
  ['on_update', ['foreign_key']],
  ['on_delete_columns', ['foreign_key']],
  ['match', ['foreign_key']],
  ['deferrable', ['unique', 'foreign_key', 'exclude']],
  ['using', ['exclude']],
  ['where', ['exclude']],
  ['nulls_not_distinct', ['unique']],
  ['not_valid', ['foreign_key', 'check']],
];

export function checkConstraints(
  context: CheckContext,
  tables: Tables,
  path: KeyPath,
  table: RawTable,
): void {
  const labels = new Set<string>();
  table.constraints.forEach((constraint, number) => {
    const at: KeyPath = [...path, 'constraints', number];
    const written = KINDS.filter((kind) => context.isWritten([...at, kind]));
    const [kind] = written;
    if (kind === undefined || written.length > 1)
      return context.badValue(
        at,
        written.length > 1
          ? `${written.join(' and ')} are two constraints`
          : 'the entry has no kind of constraint',
        'Write one of unique, foreign_key, exclude and check.',
      );
    for (const [key, kinds] of KEY_KINDS)
      if (context.isWritten([...at, key]) && !kinds.includes(kind))
        context.conflict([...at, key], `${key} is not valid for ${kind}`, `Remove ${key}.`, 'key');
    if (constraint.name !== undefined) {
      checkName(context, [...at, 'name'], constraint.name);
      if (labels.has(constraint.name))
        context.reportTwice([...at, 'name'], `the table already has a constraint ${constraint.name}`);
      labels.add(constraint.name);
    }
    checkColumns(context, at, table, constraint);
    checkExcluded(context, at, table, constraint);
    if (constraint.foreignKey) checkReference(context, tables, at, table, constraint);
  });
}

function checkColumns(context: CheckContext, at: KeyPath, table: RawTable, constraint: RawConstraint): void {
  const known = table.fields.map((field) => field.name);
  const lists = [
    ['unique', constraint.unique],
    ['foreign_key', constraint.foreignKey],
    ['on_delete_columns', constraint.onDeleteColumns],
  ] as const;
  for (const [key, columns = []] of lists) {
    columns.forEach((column, index) => {
      const path = [...at, key, index];
      if (columns.indexOf(column) < index) context.reportTwice(path, `${column} is listed twice`);
      if (known.includes(column)) return;
      context.report({
        code: 'unknown-reference',
        path,
        message: `there is no column ${context.show(path, column)}`,
        hint: () => didYouMean(column, known) ?? `Columns: ${known.slice(0, 20).join(', ')}.`,
      });
    });
  }
}

function checkExcluded(
  context: CheckContext,
  at: KeyPath,
  table: RawTable,
  { exclude = [] }: RawConstraint,
): void {
  const known = table.fields.map((field) => field.name);
  exclude.forEach(({ column, expression }, number) => {
    const path = [...at, 'exclude', number];
    if ((column === undefined) === (expression === undefined))
      context.badValue(
        path,
        column === undefined
          ? 'the entry has neither column nor expression'
          : 'the entry has column and expression',
        'Write either column or expression.',
      );
    if (column === undefined || known.includes(column)) return;
    context.report({
      code: 'unknown-reference',
      path: [...path, 'column'],
      message: `there is no column ${context.show([...path, 'column'], column)}`,
      hint: () => didYouMean(column, known) ?? `Columns: ${known.slice(0, 20).join(', ')}.`,
    });
  });
}

function checkReference(
  context: CheckContext,
  tables: Tables,
  at: KeyPath,
  table: RawTable,
  constraint: RawConstraint,
): void {
  const { foreignKey = [], references, onDelete, onUpdate, onDeleteColumns } = constraint;
  const path = [...at, 'references'];
  if (references === undefined)
    return context.report({
      code: 'missing-key',
      path: at,
      message: 'the foreign key has no references',
      hint: `Add references: table(${foreignKey.join(', ')}).`,
    });
  const target = toReferenced(references);
  if (!target)
    return context.badValue(
      path,
      `${context.quote(path, references)} does not name columns of a table`,
      'Write table(a, b) or schema.table(a, b).',
    );
  if (target.columns.length !== foreignKey.length)
    return context.conflict(
      path,
      `${foreignKey.length} columns cannot refer to ${target.columns.length}`,
      'Name the same number of columns on both sides, in the same order.',
    );
  const emptied = onDelete === 'set_null' ? (onDeleteColumns ?? foreignKey) : [];
  for (const column of new Set([...emptied, ...(onUpdate === 'set_null' ? foreignKey : [])])) {
    const field = table.fields.find((candidate) => candidate.name === column);
    const reason = field?.primaryKey ? 'part of the primary key' : 'required';
    if (field?.required || field?.primaryKey)
      context.report({
        code: 'conflict',
        path: [...at, emptied.includes(column) ? 'on_delete' : 'on_update'],
        message:
          `set_null cannot empty ${column}, which is ${reason}: deleting or changing the referenced row would ` +
          'fail',
        severity: 'warning',
        hint: 'List other columns in on_delete_columns, or use cascade or restrict.',
      });
  }
  if (onDeleteColumns !== undefined && onDelete !== 'set_null' && onDelete !== 'set_default')
    context.conflict(
      [...at, 'on_delete_columns'],
      `on_delete: ${onDelete} does not empty columns`,
      'Use on_delete: set_null or set_default.',
      'key',
    );
  const unknown = onDeleteColumns?.find((column) => !foreignKey.includes(column));
  if (unknown !== undefined)
    context.badValue(
      [...at, 'on_delete_columns'],
      `${unknown} is not a column of this foreign key`,
      `Columns: ${foreignKey.join(', ')}.`,
    );
  checkTarget(context, tables, path, references);
}

function checkTarget(context: CheckContext, tables: Tables, path: KeyPath, references: string): void {
  const target = toReferenced(references);
  if (!target || (target.schema === 'auth' && target.table === 'users')) return;
  const found = tables.get(`${target.schema}.${target.table}`);
  if (!found) {
    if (context.broken.covers(['tables', target.table])) return;
    return context.report({
      code: 'unknown-reference',
      path,
      message: `there is no table ${context.show(path, target.table)}`,
      hint: () => didYouMean(target.table, tableNames(tables)) ?? 'Declare it under tables:.',
    });
  }
  if (context.broken.touches(['tables', found.name, 'fields'])) return;
  const missing = target.columns.find((column) => !found.columns.has(column));
  if (missing !== undefined)
    return context.report({
      code: 'unknown-reference',
      path,
      message: `the table ${found.name} has no column ${context.show(path, missing)}`,
      hint: () => didYouMean(missing, found.columns.keys()) ?? '',
    });
  if (isUnique(found.table, target.columns)) return;
  if (isOnlyDeferrable(found.table, target.columns)) return refuseDeferrable(context, path, references);
  context.conflict(
    path,
    `${target.columns.join(', ')} of ${found.name} are not unique together and cannot be referenced`,
    `Add constraints: [{ unique: [${target.columns.join(', ')}] }] to ${found.name}.`,
  );
}
