// Partitions: existing columns, unique names, and keys that PostgreSQL can keep unique across partitions.
// Also checks foreign keys to unlogged tables, which a crash empties.
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

/** Start of the bounds of a strategy, with an example. */
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
        'partitions requires partition_by',
        'Add partition_by: { range: [a_column] }.',
        'key',
      );
    return;
  }
  for (const key of ['unlogged', 'with'] as const)
    if (context.isWritten([...path, key]))
      context.conflict(
        [...path, key],
        `${key} is not valid for a partitioned table, because only its partitions store rows`,
        'Remove it. You can alter a partition with SQL.',
        'key',
      );
  checkKey(context, [...path, 'partition_by'], table, partitionBy);
  checkUnique(context, path, table, partitionBy);
  if (partitions === undefined) {
    if (!context.broken.covers(at))
      context.report({
        code: 'missing-key',
        path: [...path, 'partition_by'],
        message: `the table ${path[1]} has no partitions: PostgreSQL would reject every row`,
        severity: 'warning',
        hint: 'Add partitions: { every: 1 month }, or a list, or create partitions with another tool.',
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
      hint: () => didYouMean(key, known) ?? `Columns: ${known.slice(0, 20).join(', ')}.`,
    });
  });
  if (strategy === 'list' && keys.length > 1)
    context.badValue(
      [...path, strategy, 1],
      'list accepts one column',
      'Name one column, or use range or hash.',
    );
}

/** PostgreSQL keeps rows unique per partition, so equal rows must belong to the same partition. */
function checkUnique(context: CheckContext, path: KeyPath, table: RawTable, key: RawPartitionKey): void {
  const known = table.fields.map(({ name }) => name);
  const check = (at: KeyPath, columns: readonly string[], label: string): void => {
    const absent = key.keys.filter((column) => !columns.includes(column));
    if (absent.length === 0) return;
    const [column = ''] = absent;
    context.conflict(
      at,
      known.includes(column)
        ? `${label} does not contain the partition key ${absent.join(', ')}`
        : `${label} is not possible: the table is partitioned by an expression`,
      known.includes(column)
        ? `PostgreSQL requires all columns of partition_by in a unique key: add ${absent.join(', ')}.`
        : 'Partition by columns, or remove the key.',
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
        `${context.quote([...at, 'values'], partition.values)} is not a valid bound of a ${strategy} partition`,
        `Write for example values: ${JSON.stringify(example)}.`,
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
      'every creates partitions by time, and the key is not a single column with a time',
      'Partition by the range of one column of type date, timestamp or timestamptz, or list the partitions.',
    );
  if (every.unit === 'hour' && /^date$/i.test(field.type ?? ''))
    context.conflict(
      [...path, 'every'],
      `${field.name} is a date, so it cannot be partitioned by hour`,
      'Write every: 1 day.',
    );
  if (Buffer.byteLength(tableName) + MAX_SUFFIX_LENGTH > MAX_NAME_BYTES)
    context.report({
      code: 'name-too-long',
      path: path.slice(0, 2),
      message:
        `names of partitions, such as ${tableName}_2026_11_30, would exceed the ${MAX_NAME_BYTES} bytes of ` +
        'PostgreSQL',
      hint: 'Choose a shorter name.',
      part: 'key',
    });
}

/** PostgreSQL does not allow a logged table to refer to an unlogged table. */
export function checkUnlogged(context: CheckContext): void {
  const { tables } = context.file;
  const begins = Object.entries(tables)
    .filter(([, { unlogged }]) => unlogged)
    .flatMap(([name, { schema }]) =>
      [name, `${schema}.${name}`].flatMap((table) => [`${table}.`, `${table}(`]),
    );
  if (begins.length === 0) return;
  const isUnlogged = (reference: string): boolean => begins.some((begin) => reference.startsWith(begin));
  for (const [name, table] of Object.entries(tables)) {
    if (table.unlogged) continue;
    const check = (reference: string | undefined, path: KeyPath): void => {
      if (reference === undefined || !isUnlogged(reference)) return;
      context.conflict(
        path,
        `${name} is logged and refers to an unlogged table: a crash would leave rows with invalid references`,
        'Remove unlogged from that table, add it here, or remove the foreign key.',
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

/** Partitions share the namespace of tables and views. */
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
      list.forEach((partition, n) => {
        const key = `${schema}.${partition.name}`;
        const owner = owners.get(key);
        owners.set(key, `partition of ${table}`);
        if (owner !== undefined)
          context.report({
            code: 'duplicate',
            path: [...path, n, 'name'],
            message: `there is already a ${owner} with this name`,
            hint: 'Choose another name: names of tables, views and partitions are unique in a schema.',
          });
        if ('partitions' in partition && partition.partitions)
          check(partition.partitions, [...path, n, 'partitions']);
      });
    check(partitions, ['tables', table, 'partitions']);
  }
}
