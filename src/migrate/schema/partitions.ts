// Partitions of a table: what the file says of them, what it means in SQL, and what the database has.
import { isListed } from '../../config/schema/tables/partitions.ts';
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import { expression, type Expression } from './expression.ts';
import {
  type KeptModel,
  nameOf,
  type PartitionKeyModel,
  type PartitionModel,
  type Span,
  type TableModel,
} from './model.ts';

export type DesiredPartitioning = {
  /** `range ("at")` */
  readonly sql: string;
  /** The server's print; empty until it has read it. */
  readonly normal: string;
  /** Those that are listed, parents before their parts. */
  readonly partitions: readonly DesiredPartition[];
  readonly at: string;
};

export type DesiredPartition = {
  readonly schema: string;
  readonly name: string;
  /** Of which it is a part; null: of the table. */
  readonly parent: string | null;
  /** Its normal form is the server's print with FOR VALUES. */
  readonly values: Expression;
  readonly by: { readonly sql: string; readonly normal: string } | null;
  readonly at: string;
};

export type LivePartitioning = {
  readonly strategy: PartitionKeyModel['strategy'];
  /** The server's print: `RANGE (at)` */
  readonly key: string;
  /** Columns and expressions; null where the file could not say it. */
  readonly keys: readonly string[] | null;
  /** Parents before their parts. */
  readonly partitions: readonly LivePartition[];
};

export type LivePartition = {
  readonly oid: string;
  readonly schema: string;
  readonly name: string;
  /** Null: the table itself. */
  readonly parent: string | null;
  /** `FOR VALUES FROM (…) TO (…)`, or `DEFAULT`. */
  readonly bound: string;
  /** Null: it holds rows itself. */
  readonly by: Omit<LivePartitioning, 'partitions'> | null;
};

/** Normal forms: the print of the key, and bound and key of each partition in order. */
export type PartitioningForm = {
  readonly key: string;
  readonly partitions: ReadonlyArray<readonly [string, string | null]>;
};

/** How svc looks after the partitions of a table; null: they are listed, or somebody else's. */
export function keptOf({ partitioning }: Pick<TableModel, 'partitioning'>): KeptModel | null {
  const partitions = partitioning?.partitions ?? null;
  return isListed<PartitionModel>(partitions) ? null : partitions;
}

export function partitioningOf(table: TableModel): DesiredPartitioning | null {
  const { partitioning, schema, columns, at } = table;
  if (!partitioning) return null;
  const names = new Set(columns.map(({ name }) => name));
  const sqlOf = (key: PartitionKeyModel): string => partitionKeySql(key, names);
  const flat = (list: readonly PartitionModel[], parent: string | null): DesiredPartition[] =>
    list.flatMap(({ name, values, by, partitions: parts = [], at: place }) => [
      {
        schema,
        name,
        parent,
        values: expression(values, `${place}.values`),
        by: by ? { sql: sqlOf(by), normal: '' } : null,
        at: place,
      },
      ...flat(parts, name),
    ]);
  const { partitions } = partitioning;
  return {
    sql: sqlOf(partitioning.key),
    normal: '',
    partitions: isListed<PartitionModel>(partitions) ? flat(partitions, null) : [],
    at: `${at}.partition_by`,
  };
}

function partitionKeySql({ strategy, keys }: PartitionKeyModel, columns: ReadonlySet<string>): string {
  return `${strategy} (${keys.map((key) => (columns.has(key) ? quoteIdent(key) : `(${key}\n)`)).join(', ')})`;
}

/** What follows the columns in CREATE TABLE, or nothing. */
export function partitionBySql(by: { readonly sql: string } | null): string {
  return by === null ? '' : ` partition by ${by.sql}`;
}

/** `for values from (…) to (…)`, or `default`. */
export function boundSql(values: string): string {
  return /^\s*default\s*$/i.test(values) ? 'default' : `for values ${values}\n`;
}

/** Those that the file lists, of any depth, parents before their parts. */
export function listedPartitions({
  partitioning,
}: Pick<TableModel, 'partitioning'>): readonly PartitionModel[] {
  const all = (list: readonly PartitionModel[]): PartitionModel[] =>
    list.flatMap((one) => [one, ...all(one.partitions ?? [])]);
  const partitions = partitioning?.partitions ?? null;
  return isListed<PartitionModel>(partitions) ? all(partitions) : [];
}

/** Every text of it that goes to the server as it is, with its place. */
export function textsOf(table: TableModel): ReadonlyArray<readonly [string, string]> {
  const { partitioning, at } = table;
  if (!partitioning) return [];
  const ofKey = ({ keys }: PartitionKeyModel, place: string): [string, string][] =>
    keys.map((key) => [key, `${place}.partition_by`]);
  return [
    ...ofKey(partitioning.key, at),
    ...listedPartitions(table).flatMap(({ values, by, at: place }) => [
      [values, `${place}.values`] as const,
      ...(by ? ofKey(by, place) : []),
    ]),
  ];
}

type NamedPartition = Pick<LivePartition, 'schema' | 'name' | 'parent'>;
type Named = { readonly schema: string; readonly name: string };

/** Times without a zone are UTC, on every server. */
export function createPartitionSql(table: Named, partition: DesiredPartition): string {
  const of = nameOf({ schema: table.schema, name: partition.parent ?? table.name });
  const { values, by } = partition;
  return inUtc(
    `create table ${nameOf(partition)} partition of ${of} ${boundSql(values.sql)}${partitionBySql(by)}`,
  );
}

export function attachPartitionSql(table: Named, partition: DesiredPartition): string {
  const of = nameOf({ schema: table.schema, name: partition.parent ?? table.name });
  return inUtc(`alter table ${of} attach partition ${nameOf(partition)} ${boundSql(partition.values.sql)}`);
}

export function detachPartitionSql(table: Named, partition: LivePartition): string {
  const of = nameOf({ schema: table.schema, name: partition.parent ?? table.name });
  return `alter table ${of} detach partition ${nameOf(partition)}`;
}

/** Out of its table, as a table by itself that nobody reaches. */
export function retirePartitionSql(table: Named, { parent, ...partition }: NamedPartition): string {
  const of = { schema: table.schema, name: parent ?? table.name };
  return `select svc_meta.retire_partition(${regclass(of)}, ${regclass(partition)})`;
}

/** Those that are not there yet; the number of what it made. */
export function makePartitionsSql(table: Named, kept: KeptModel): string {
  return makeFrom(table, kept, kept.from === null ? 'null' : quoteLiteral(kept.from));
}

/** The same later on: what is old has left the table, and is not made again. */
export function makeMorePartitionsSql(table: Named, kept: KeptModel): string {
  const { from, keep } = kept;
  if (from === null || keep === null) return makePartitionsSql(table, kept);
  const oldest = `now() - ${quoteLiteral(spanText(keep))}::interval`;
  return makeFrom(table, kept, `greatest(${quoteLiteral(from)}::timestamptz, ${oldest})`);
}

function makeFrom(table: Named, { every, ahead }: KeptModel, first: string): string {
  return `select svc_meta.make_partitions(${regclass(table)}, ${quoteLiteral(every.unit)}, ${every.count}, ${ahead}, ${first})`;
}

/** `3 months` */
export function spanText({ count, unit }: Span): string {
  return `${count} ${unit}${count === 1 ? '' : 's'}`;
}

function regclass(one: Named): string {
  return `${quoteLiteral(nameOf(one))}::regclass`;
}

function inUtc(statement: string): string {
  return `set local timezone = 'UTC'; ${statement}; set local timezone to default`;
}
