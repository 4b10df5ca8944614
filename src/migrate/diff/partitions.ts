// Compares listed partitions. Scheduled partitions of an existing table are not part of a migration.
import { isListed } from '../../config/schema/tables/partitions.ts';
import type { DesiredTable } from '../schema/desired.ts';
import type { Live, LiveTable } from '../schema/live/live-schema.ts';
import { objectKey } from '../schema/model.ts';
import { type DesiredPartition, partitionSchedule, type LivePartition } from '../schema/partitions.ts';
import type { Change } from './change.ts';
import { ofKind } from './change-kinds.ts';
import type { TableDiff } from './table-diff.ts';

/** Returns the changes that create the partitions of a new table. */
export function newTablePartitions(table: DesiredTable): Change[] {
  const { partitioning } = table;
  if (partitioning === null) return [];
  const schedule = partitionSchedule(table.model);
  return [
    ...partitioning.partitions.map((partition): Change => ({
      kind: 'add-partition',
      table,
      live: null,
      partition,
      back: null,
    })),
    ...(schedule ? [{ kind: 'make-partitions', table, live: null, schedule } as const] : []),
  ];
}

export function diffPartitions(
  { table, live, key, owned, ownership, changes, unmanaged, claim }: TableDiff,
  tables: Live['tables'],
): void {
  const { partitioning } = table;
  // The file does not list scheduled partitions and partitions that svc does not manage.
  if (partitioning === null || live.partitioning === null || !listsPartitions(table)) return;
  claim.partitions = partitioning.partitions.map(({ name }) => name);
  const wanted = new Map(partitioning.partitions.map((partition) => [partition.name, partition]));
  const found = new Map(
    live.partitioning.partitions
      .filter(({ schema }) => schema === table.schema)
      .map((livePartition) => [livePartition.name, livePartition]),
  );
  const renamed = renamedPartitions(partitioning.partitions, found, wanted);
  const removed = new Set<string>();
  for (const partition of live.partitioning.partitions) {
    const { name, parent, schema } = partition;
    if (schema === table.schema && (wanted.has(name) || renamed.has(name))) continue;
    if (parent !== null && removed.has(parent)) {
      // The partition leaves together with its parent.
      removed.add(name);
      continue;
    }
    if (owned.partitions?.includes(name) && schema === table.schema) {
      removed.add(name);
      changes.push({ kind: 'retire-partition', table, live, partition });
    } else unmanaged.push({ table: key, what: 'partition', name });
  }
  for (const [name, to] of renamed) {
    const partition = found.get(name);
    if (partition) changes.push({ kind: 'rename-partition', table, live, partition, name: to });
  }
  const existing = new Set([...found.keys(), ...renamed.values()]);
  for (const partition of partitioning.partitions) {
    if (existing.has(partition.name)) continue;
    const back =
      (ownership.retiredTables.has(objectKey(partition)) && tables.get(objectKey(partition))) || null;
    // A partition that returns keeps its own partitions.
    for (const { name } of back?.partitioning?.partitions ?? []) existing.add(name);
    changes.push({ kind: 'add-partition', table, live, partition, back });
  }
}

export function listsPartitions({ model }: DesiredTable): boolean {
  return isListed(model.partitioning?.partitions);
}

/** Returns new names, keyed by old ones. A partition with the same bound and parent but another name was renamed. */
function renamedPartitions(
  partitions: readonly DesiredPartition[],
  found: ReadonlyMap<string, LivePartition>,
  wanted: ReadonlyMap<string, DesiredPartition>,
): ReadonlyMap<string, string> {
  const renamed = new Map<string, string>();
  for (const { name, parent, values } of partitions) {
    if (found.has(name)) continue;
    const former = [...found.values()].find(
      (livePartition) =>
        !wanted.has(livePartition.name) &&
        livePartition.parent === parent &&
        livePartition.bound === values.normal,
    );
    if (former) renamed.set(former.name, name);
  }
  return renamed;
}

export type PartitionAfter = {
  readonly schema: string;
  readonly name: string;
  /** Null for a partition of the table. */
  readonly parent: string | null;
  /** True if it stores rows, so it is not partitioned further. */
  readonly isLeaf: boolean;
};

/** Returns the partitions of a table after all changes of a plan. Parents come before their partitions. */
export function partitionsAfter(live: LiveTable, changes: readonly Change[]): PartitionAfter[] {
  const removed = new Set<string>();
  const renamed = new Map<string, string>();
  const added: PartitionAfter[] = [];
  const own = changes.filter((change) => 'table' in change && objectKey(change.table) === objectKey(live));
  for (const { partition } of ofKind(own, 'retire-partition')) removed.add(partition.name);
  for (const { partition, name } of ofKind(own, 'rename-partition')) renamed.set(partition.name, name);
  for (const { partition, back } of ofKind(own, 'add-partition')) {
    const { schema, name, parent, by } = partition;
    added.push({ schema, name, parent, isLeaf: by === null });
    // A partition that returns keeps its own partitions.
    for (const subpartition of back?.partitioning?.partitions ?? [])
      added.push({ ...subpartition, parent: subpartition.parent ?? name, isLeaf: subpartition.by === null });
  }
  const kept = (live.partitioning?.partitions ?? []).flatMap((partition): PartitionAfter[] => {
    // A partition of a removed partition leaves with it.
    if (partition.parent !== null && removed.has(partition.parent)) removed.add(partition.name);
    if (removed.has(partition.name)) return [];
    const { schema, name, parent, by } = partition;
    return [
      {
        schema,
        name: renamed.get(name) ?? name,
        parent: parent === null ? null : (renamed.get(parent) ?? parent),
        isLeaf: by === null,
      },
    ];
  });
  return [...kept, ...added];
}
