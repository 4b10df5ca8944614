// How a table is stored. Partitions: of columns that exist, with names of their own, and keys that PostgreSQL can keep unique
// over all of them. Tables that a crash empties.
import type { KeyPath } from '../../mistakes/mistake.ts';
import type {
  KeptPartitions,
  RawLeaf,
  RawPartition,
  RawPartitionKey,
  Strategy,
} from '../../schema/tables/partitions.ts';
import type { RawTable } from '../../schema/tables/tables.ts';
import { type CheckContext, didYouMean } from '../context.ts';
import { checkName } from '../name.ts';
import { plainColumns } from './index-parts.ts';

/** How the bounds of a strategy begin, and how they are written. */
const BOUNDS: Record<Strategy, readonly [RegExp, string]> = {
  range: [/^from\b/i, "from ('2026-01-01') to ('2027-01-01')"],
  list: [/^in\b/i, "in ('de', 'fr')"],
  hash: [/^with\b/i, 'with (modulus 4, remainder 0)'],
};
const SIMPLE_NAME = /^[a-z_][a-z0-9_]*$/i;
const TIME = /^(?:date|timestamp(?:tz)?|timestamp(?:\(\d\))? (?:with|without) time zone)$/i;
/** `_2026_11_30_23`, which svc adds to the name of the table. */
const MAX_SUFFIX_LENGTH = 14;
const MAX_NAME_BYTES = 63;

export function checkPartitions(context: CheckContext, path: KeyPath, table: RawTable): void {
  const { partitionBy, partitions } = table;
  const at = [...path, 'partitions'];
  if (partitionBy === undefined) {
    if (partitions !== undefined && !context.broken.covers([...path, 'partition_by']))
      context.conflict(
        at,
        'nothing says which rows a partition holds',
        'Add partition_by: { range: [a_column] }.',
        'key',
      );
    return;
  }
  for (const key of ['unlogged', 'with'] as const)
    if (context.isWritten([...path, key]))
      context.conflict(
        [...path, key],
        `${key} is of what holds rows, and a partitioned table holds none itself`,
        'Leave it out; a partition can be altered by hand.',
        'key',
      );
  checkKey(context, [...path, 'partition_by'], table, partitionBy);
  checkUnique(context, path, table, partitionBy);
  if (partitions === undefined) {
    if (!context.broken.covers(at))
      context.report({
        code: 'missing-key',
        path: [...path, 'partition_by'],
        message: `the table ${path[1]} has no partitions: every row would be refused`,
        severity: 'warning',
        hint: 'Add partitions: { every: 1 month }, or a list; or make them with something else.',
        part: 'key',
      });
  } else if (Array.isArray(partitions)) checkListed(context, at, table, partitionBy, partitions);
  else checkKept(context, at, String(path[1]), table, partitionBy, partitions);
}

function checkKey(
  context: CheckContext,
  path: KeyPath,
  { fields }: RawTable,
  { strategy, keys }: RawPartitionKey,
): void {
  const known = fields.map(({ name }) => name);
  keys.forEach((key, n) => {
    const at = [...path, strategy, n];
    if (known.includes(key) || !SIMPLE_NAME.test(key)) return;
    context.report({
      code: 'unknown-reference',
      path: at,
      message: `there is no column ${context.show(at, key)}`,
      hint: () => didYouMean(key, known) ?? `The columns: ${known.slice(0, 20).join(', ')}.`,
    });
  });
  if (strategy === 'list' && keys.length > 1)
    context.badValue([...path, strategy, 1], 'a list is of one column', 'Name one, or use range or hash.');
}

/** PostgreSQL keeps rows unique in each partition, which is everywhere only if equal rows are in one. */
function checkUnique(context: CheckContext, path: KeyPath, table: RawTable, key: RawPartitionKey): void {
  const known = table.fields.map(({ name }) => name);
  const check = (at: KeyPath, columns: readonly string[], what: string): void => {
    const absent = key.keys.filter((one) => !columns.includes(one));
    if (absent.length === 0) return;
    const [column = ''] = absent;
    context.conflict(
      at,
      known.includes(column)
        ? `${what} leaves out ${absent.join(', ')}, by which the table is partitioned`
        : `${what} cannot be: the table is partitioned by an expression`,
      known.includes(column)
        ? `PostgreSQL keeps only keys with the columns of partition_by unique: add ${absent.join(', ')}.`
        : 'Partition by columns, or leave it out.',
    );
  };
  const primary = table.fields.filter((field) => field.primaryKey).map(({ name }) => name);
  const first = table.fields.findIndex((field) => field.primaryKey);
  if (primary.length > 0) check([...path, 'fields', first, 'primary_key'], primary, 'the primary key');
  table.fields.forEach(({ name, unique }, n) => {
    if (unique) check([...path, 'fields', n, 'unique'], [name], `unique of ${name}`);
  });
  table.constraints.forEach(({ unique }, n) => {
    if (unique) check([...path, 'constraints', n, 'unique'], unique, 'this key');
  });
  table.indexes.forEach((index, n) => {
    if (index.unique)
      check([...path, 'indexes', n, 'columns'], plainColumns(index) ?? [], 'this unique index');
  });
}

function checkListed(
  context: CheckContext,
  path: KeyPath,
  table: RawTable,
  { strategy }: RawPartitionKey,
  partitions: readonly (RawPartition | RawLeaf)[],
): void {
  partitions.forEach((partition, n) => {
    const at = [...path, n];
    checkName(context, [...at, 'name'], partition.name);
    const [begin, example] = BOUNDS[strategy];
    const values = partition.values.trim();
    const isDefault = /^default$/i.test(values);
    if (isDefault ? strategy === 'hash' : !begin.test(values))
      context.badValue(
        [...at, 'values'],
        `${context.quote([...at, 'values'], partition.values)} does not say which rows of a ${strategy} it holds`,
        `Write it like values: ${JSON.stringify(example)}.`,
      );
    if (!('partitionBy' in partition)) return;
    const { partitionBy, partitions: parts } = partition;
    if ((partitionBy === undefined) !== (parts === undefined))
      return context.conflict(
        at,
        `${partition.name} has ${partitionBy ? 'partition_by without partitions' : 'partitions without partition_by'}`,
        'Write both, or neither.',
      );
    if (partitionBy === undefined || parts === undefined) return;
    checkKey(context, [...at, 'partition_by'], table, partitionBy);
    checkUnique(context, path.slice(0, 2), table, partitionBy);
    checkListed(context, [...at, 'partitions'], table, partitionBy, parts);
  });
}

function checkKept(
  context: CheckContext,
  path: KeyPath,
  tableName: string,
  table: RawTable,
  { strategy, keys }: RawPartitionKey,
  { every }: KeptPartitions,
): void {
  const [key, ...more] = keys;
  const field = table.fields.find(({ name }) => name === key);
  if (strategy !== 'range' || more.length > 0 || !field || !TIME.test(field.type ?? ''))
    return context.conflict(
      path,
      'every makes partitions by time, and this key is no single column with a time',
      'Partition by the range of one column of type date, timestamp or timestamptz, or list the partitions.',
    );
  if (every.unit === 'hour' && /^date$/i.test(field.type ?? ''))
    context.conflict(
      [...path, 'every'],
      `${field.name} holds days, and knows no hours`,
      'Write every: 1 day.',
    );
  if (Buffer.byteLength(tableName) + MAX_SUFFIX_LENGTH > MAX_NAME_BYTES)
    context.report({
      code: 'name-too-long',
      path: path.slice(0, 2),
      message: `partitions are called ${tableName}_2026_11_30, which is longer than the ${MAX_NAME_BYTES} bytes that PostgreSQL keeps`,
      hint: 'Choose a shorter name.',
      part: 'key',
    });
}

/** PostgreSQL lets no row that stays refer to rows that a crash takes away. */
export function checkUnlogged(context: CheckContext): void {
  const { tables } = context.file;
  const begins = Object.entries(tables)
    .filter(([, { unlogged }]) => unlogged)
    .flatMap(([name, { schema }]) => [name, `${schema}.${name}`].flatMap((one) => [`${one}.`, `${one}(`]));
  if (begins.length === 0) return;
  const isUnlogged = (reference: string): boolean => begins.some((begin) => reference.startsWith(begin));
  for (const [name, table] of Object.entries(tables)) {
    if (table.unlogged) continue;
    const check = (reference: string | undefined, path: KeyPath): void => {
      if (reference === undefined || !isUnlogged(reference)) return;
      context.conflict(
        path,
        `${name} is logged, and what it refers to here is not: a crash would leave rows that refer to nothing`,
        'Take unlogged away there, add it here, or leave the foreign key out.',
      );
    };
    table.fields.forEach(({ foreignKey }, n) =>
      check(foreignKey?.references, ['tables', name, 'fields', n, 'foreign_key', 'references']),
    );
    table.constraints.forEach(({ references }, n) =>
      check(references, ['tables', name, 'constraints', n, 'references']),
    );
  }
}

/** A partition is a table: no other has its name. */
export function checkPartitionNames(context: CheckContext): void {
  const { tables, views } = context.file;
  const owners = new Map(
    [...Object.entries(tables), ...Object.entries(views)].map(([name, { schema }]) => [
      `${schema}.${name}`,
      `${name in tables ? 'table' : 'view'} ${name}`,
    ]),
  );
  for (const [table, { schema, partitions }] of Object.entries(tables)) {
    if (!Array.isArray(partitions)) continue;
    const check = (list: readonly (RawPartition | RawLeaf)[], path: KeyPath): void =>
      list.forEach((one, n) => {
        const key = `${schema}.${one.name}`;
        const other = owners.get(key);
        owners.set(key, `partition of ${table}`);
        if (other !== undefined)
          context.report({
            code: 'duplicate',
            path: [...path, n, 'name'],
            message: `there is a ${other} of this name already`,
            hint: 'Names of tables, views and partitions are unique in their schema: choose another.',
          });
        if ('partitions' in one && one.partitions) check(one.partitions, [...path, n, 'partitions']);
      });
    check(partitions, ['tables', table, 'partitions']);
  }
}
