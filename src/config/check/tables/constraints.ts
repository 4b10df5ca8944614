// Constraints: each says one thing, of columns that exist, and a foreign key refers to a key.
import type { KeyPath } from '../../mistakes/mistake.ts';
import type { RawConstraint } from '../../schema/tables/constraints.ts';
import { toReferenced } from '../../schema/tables/reference.ts';
import type { RawTable } from '../../schema/tables/tables.ts';
import { type CheckContext, didYouMean } from '../context.ts';
import { isOnlyDeferrable, isUnique, tableNames, refuseDeferrable, type Tables } from './foreign-key.ts';
import { checkName } from '../name.ts';

const KINDS = ['unique', 'foreign_key', 'exclude', 'check'] as const;

/** Keys that belong to some kinds only. */
const OF_KINDS: ReadonlyArray<readonly [key: string, kinds: readonly string[]]> = [
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
    const said = KINDS.filter((kind) => context.isWritten([...at, kind]));
    const [kind] = said;
    if (kind === undefined || said.length > 1)
      return context.badValue(
        at,
        said.length > 1 ? `${said.join(' and ')} are two constraints` : 'nothing says what is constrained',
        'Write one of unique, foreign_key, exclude and check.',
      );
    for (const [key, kinds] of OF_KINDS)
      if (context.isWritten([...at, key]) && !kinds.includes(kind))
        context.conflict([...at, key], `${key} does not belong to ${kind}`, `Remove ${key}.`, 'key');
    if (constraint.name !== undefined) {
      checkName(context, [...at, 'name'], constraint.name);
      if (labels.has(constraint.name))
        context.reportTwice(
          [...at, 'name'],
          `a constraint of this table is called ${constraint.name} already`,
        );
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
      if (columns.indexOf(column) < index) context.reportTwice(path, `${column} is named twice`);
      if (known.includes(column)) return;
      context.report({
        code: 'unknown-reference',
        path,
        message: `there is no column ${context.show(path, column)}`,
        hint: () => didYouMean(column, known) ?? `The columns: ${known.slice(0, 20).join(', ')}.`,
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
        column === undefined ? 'the entry names nothing to compare' : 'the entry names two things to compare',
        'Write either column or expression.',
      );
    if (column === undefined || known.includes(column)) return;
    context.report({
      code: 'unknown-reference',
      path: [...path, 'column'],
      message: `there is no column ${context.show([...path, 'column'], column)}`,
      hint: () => didYouMean(column, known) ?? `The columns: ${known.slice(0, 20).join(', ')}.`,
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
      message: 'the foreign key refers to nothing',
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
      'Name as many columns on both sides, in the same order.',
    );
  const emptied = onDelete === 'set_null' ? (onDeleteColumns ?? foreignKey) : [];
  for (const column of new Set([...emptied, ...(onUpdate === 'set_null' ? foreignKey : [])])) {
    const field = table.fields.find((one) => one.name === column);
    if (field?.required || field?.primaryKey)
      context.report({
        code: 'conflict',
        path: [...at, emptied.includes(column) ? 'on_delete' : 'on_update'],
        message: `set_null cannot empty ${column}: the column is ${field.primaryKey ? 'part of the primary key' : 'required'}, so removing what it refers to fails`,
        severity: 'warning',
        hint: 'Name the others in on_delete_columns, or use cascade or restrict.',
      });
  }
  if (onDeleteColumns !== undefined && onDelete !== 'set_null' && onDelete !== 'set_default')
    context.conflict(
      [...at, 'on_delete_columns'],
      `on_delete: ${onDelete} empties no columns`,
      'Use on_delete: set_null or set_default.',
      'key',
    );
  const stranger = onDeleteColumns?.find((column) => !foreignKey.includes(column));
  if (stranger !== undefined)
    context.badValue(
      [...at, 'on_delete_columns'],
      `${stranger} is not a column of this foreign key`,
      `Its columns: ${foreignKey.join(', ')}.`,
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
    `${target.columns.join(', ')} of ${found.name} are not unique together, so nothing can refer to them`,
    `Add constraints: [{ unique: [${target.columns.join(', ')}] }] to ${found.name}.`,
  );
}
