// Partitions of a table: desired and live types, and their SQL.
import { isListed } from '../../config/schema/tables/partitions.ts';
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import { expression, type Expression } from './expression.ts';
import {
  type PartitionSchedule,
  quoteName,
  type PartitionKeyModel,
  type PartitionModel,
  type Span,
  type TableModel,
} from './model.ts';

export type DesiredPartitioning = {
  /** `range ("at")` */
  readonly sql: string;
  /** Partition key as printed by the server. Empty before normalisation. */
  readonly normal: string;
  /** Listed partitions. Parents come before their partitions. */
  readonly partitions: readonly DesiredPartition[];
  readonly at: string;
};

export type DesiredPartition = {
  readonly schema: string;
  readonly name: string;
  /** Name of the parent partition, or null for a partition of the table. */
  readonly parent: string | null;
  /** Bound. The normal form is printed by the server and starts with FOR VALUES. */
  readonly values: Expression;
  readonly by: { readonly sql: string; readonly normal: string } | null;
  readonly at: string;
};

export type LivePartitioning = {
  readonly strategy: PartitionKeyModel['strategy'];
  /** Partition key as printed by the server: `RANGE (at)`. */
  readonly key: string;
  /** Columns and expressions, or null if a file cannot declare the key. */
  readonly keys: readonly string[] | null;
  /** Parents come before their partitions. */
  readonly partitions: readonly LivePartition[];
};

export type LivePartition = {
  readonly oid: string;
  readonly schema: string;
  readonly name: string;
  /** Null for a partition of the table. */
  readonly parent: string | null;
  /** `FOR VALUES FROM (…) TO (…)`, or `DEFAULT`. */
  readonly bound: string;
  /** Null if the partition is not partitioned further. */
  readonly by: Omit<LivePartitioning, 'partitions'> | null;
};

/** Normal form: the printed key, and the printed bound and key of each partition, in order. */
export type PartitioningForm = {
  readonly key: string;
  readonly partitions: ReadonlyArray<readonly [string, string | null]>;
};

/** Returns the schedule of a table, or null if its partitions are listed or not managed by svc. */
export function partitionSchedule({
  partitioning,
}: Pick<TableModel, 'partitioning'>): PartitionSchedule | null {
  const partitions = partitioning?.partitions ?? null;
  return isListed<PartitionModel>(partitions) ? null : partitions;
}

export function toPartitioning(table: TableModel): DesiredPartitioning | null {
  const { partitioning, schema, columns, at } = table;
  if (!partitioning) return null;
  const names = new Set(columns.map(({ name }) => name));
  const keySql = (key: PartitionKeyModel): string => partitionKeySql(key, names);
  const flat = (list: readonly PartitionModel[], parent: string | null): DesiredPartition[] =>
    list.flatMap(({ name, values, by, partitions: parts = [], at: place }) => [
      {
        schema,
        name,
        parent,
        values: expression(values, `${place}.values`),
        by: by ? { sql: keySql(by), normal: '' } : null,
        at: place,
      },
      ...flat(parts, name),
    ]);
  const { partitions } = partitioning;
  return {
    sql: keySql(partitioning.key),
    normal: '',
    partitions: isListed<PartitionModel>(partitions) ? flat(partitions, null) : [],
    at: `${at}.partition_by`,
  };
}

function partitionKeySql({ strategy, keys }: PartitionKeyModel, columns: ReadonlySet<string>): string {
  return `${strategy} (${keys.map((key) => (columns.has(key) ? quoteIdent(key) : `(${key}\n)`)).join(', ')})`;
}

/** Returns the PARTITION BY clause of CREATE TABLE, or an empty string. */
export function partitionBySql(by: { readonly sql: string } | null): string {
  return by === null ? '' : ` partition by ${by.sql}`;
}

/** Returns `for values from (…) to (…)`, or `default`. */
export function boundSql(values: string): string {
  return /^\s*default\s*$/i.test(values) ? 'default' : `for values ${values}\n`;
}

/** Returns the listed partitions of all levels. Parents come before their partitions. */
export function listedPartitions({
  partitioning,
}: Pick<TableModel, 'partitioning'>): readonly PartitionModel[] {
  const all = (list: readonly PartitionModel[]): PartitionModel[] =>
    list.flatMap((partition) => [partition, ...all(partition.partitions ?? [])]);
  const partitions = partitioning?.partitions ?? null;
  return isListed<PartitionModel>(partitions) ? all(partitions) : [];
}

/** Returns all SQL texts of the partitioning with their paths in the file. */
export function partitionTexts(table: TableModel): ReadonlyArray<readonly [string, string]> {
  const { partitioning, at } = table;
  if (!partitioning) return [];
  const keyTexts = ({ keys }: PartitionKeyModel, place: string): [string, string][] =>
    keys.map((key) => [key, `${place}.partition_by`]);
  return [
    ...keyTexts(partitioning.key, at),
    ...listedPartitions(table).flatMap(({ values, by, at: place }) => [
      [values, `${place}.values`] as const,
      ...(by ? keyTexts(by, place) : []),
    ]),
  ];
}

type NamedPartition = Pick<LivePartition, 'schema' | 'name' | 'parent'>;
type Named = { readonly schema: string; readonly name: string };

/** Returns a statement that creates a partition. Bounds without a time zone are in UTC. */
export function createPartitionSql(table: Named, partition: DesiredPartition): string {
  const parent = quoteName({ schema: table.schema, name: partition.parent ?? table.name });
  const { values, by } = partition;
  return inUtc(
    `create table ${quoteName(partition)} partition of ${parent} ${boundSql(values.sql)}${partitionBySql(by)}`,
  );
}

export function attachPartitionSql(table: Named, partition: DesiredPartition): string {
  const parent = quoteName({ schema: table.schema, name: partition.parent ?? table.name });
  return inUtc(
    `alter table ${parent} attach partition ${quoteName(partition)} ${boundSql(partition.values.sql)}`,
  );
}

export function detachPartitionSql(table: Named, partition: LivePartition): string {
  const parent = quoteName({ schema: table.schema, name: partition.parent ?? table.name });
  return `alter table ${parent} detach partition ${quoteName(partition)}`;
}

/** Returns a statement that detaches a partition and revokes all access to it. */
export function retirePartitionSql(table: Named, { parent, ...partition }: NamedPartition): string {
  const owner = { schema: table.schema, name: parent ?? table.name };
  return `select svc_meta.retire_partition(${regclass(owner)}, ${regclass(partition)})`;
}

/** Returns a statement that creates the missing partitions of a schedule and returns their number. */
export function makePartitionsSql(table: Named, schedule: PartitionSchedule): string {
  return makeFrom(table, schedule, schedule.from === null ? 'null' : quoteLiteral(schedule.from));
}

/** Like `makePartitionsSql`, but does not create partitions again that the schedule has retired. */
export function extendPartitionsSql(table: Named, schedule: PartitionSchedule): string {
  const { from, keep } = schedule;
  if (from === null || keep === null) return makePartitionsSql(table, schedule);
  const oldest = `now() - ${quoteLiteral(spanText(keep))}::interval`;
  return makeFrom(table, schedule, `greatest(${quoteLiteral(from)}::timestamptz, ${oldest})`);
}

function makeFrom(table: Named, { every, ahead }: PartitionSchedule, first: string): string {
  return (
    `select svc_meta.make_partitions(${regclass(table)}, ` +
    `${quoteLiteral(every.unit)}, ${every.count}, ${ahead}, ${first})`
  );
}

/** `3 months` */
export function spanText({ count, unit }: Span): string {
  return `${count} ${unit}${count === 1 ? '' : 's'}`;
}

function regclass(relation: Named): string {
  return `${quoteLiteral(quoteName(relation))}::regclass`;
}

function inUtc(statement: string): string {
  return `set local timezone = 'UTC'; ${statement}; set local timezone to default`;
}
