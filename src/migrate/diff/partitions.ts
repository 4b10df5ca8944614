// Partitions that the file lists. Those that svc makes by time are no business of a migration once their table is there.
import { isListed } from '../../config/schema/tables/partitions.ts';
import type { DesiredTable } from '../schema/desired.ts';
import type { Live, LiveTable } from '../schema/live/live-schema.ts';
import { keyOf } from '../schema/model.ts';
import { type DesiredPartition, keptOf, type LivePartition } from '../schema/partitions.ts';
import type { Change } from './change.ts';
import type { TableDiff } from './table-diff.ts';

/** Of a table that this run makes. */
export function partitionsOfNew(table: DesiredTable): Change[] {
  const { partitioning } = table;
  if (partitioning === null) return [];
  const kept = keptOf(table.model);
  return [
    ...partitioning.partitions.map((partition): Change => ({
      kind: 'add-partition',
      table,
      live: null,
      partition,
      back: null,
    })),
    ...(kept ? [{ kind: 'make-partitions', table, live: null, kept } as const] : []),
  ];
}

export function diffPartitions(
  { table, live, key, owned, ownership, changes, unmanaged, claim }: TableDiff,
  tables: Live['tables'],
): void {
  const { partitioning } = table;
  // What svc makes by time is not listed, and neither is what somebody else makes.
  if (partitioning === null || live.partitioning === null || !listsPartitions(table)) return;
  claim.partitions = partitioning.partitions.map(({ name }) => name);
  const wanted = new Map(partitioning.partitions.map((one) => [one.name, one]));
  const found = new Map(live.partitioning.partitions.filter(isOf(table)).map((one) => [one.name, one]));
  const renamed = renamedPartitions(partitioning.partitions, found, wanted);
  const gone = new Set<string>();
  for (const partition of live.partitioning.partitions) {
    const { name, parent, schema } = partition;
    if (schema === table.schema && (wanted.has(name) || renamed.has(name))) continue;
    if (parent !== null && gone.has(parent)) {
      // It goes with the one that it is a part of.
      gone.add(name);
      continue;
    }
    if (owned.partitions?.includes(name) && schema === table.schema) {
      gone.add(name);
      changes.push({ kind: 'retire-partition', table, live, partition });
    } else unmanaged.push({ table: key, what: 'partition', name });
  }
  for (const [name, to] of renamed) {
    const partition = found.get(name);
    if (partition) changes.push({ kind: 'rename-partition', table, live, partition, name: to });
  }
  const there = new Set([...found.keys(), ...renamed.values()]);
  for (const partition of partitioning.partitions) {
    if (there.has(partition.name)) continue;
    const back = (ownership.retiredTables.has(keyOf(partition)) && tables.get(keyOf(partition))) || null;
    // What comes back has its own partitions with it.
    for (const { name } of back?.partitioning?.partitions ?? []) there.add(name);
    changes.push({ kind: 'add-partition', table, live, partition, back });
  }
}

export function listsPartitions({ model }: DesiredTable): boolean {
  return isListed(model.partitioning?.partitions);
}

function isOf({ schema }: DesiredTable): (partition: LivePartition) => boolean {
  return (partition) => partition.schema === schema;
}

/** New names by old ones: a partition with the same rows, in the same place, under another name. */
function renamedPartitions(
  partitions: readonly DesiredPartition[],
  found: ReadonlyMap<string, LivePartition>,
  wanted: ReadonlyMap<string, DesiredPartition>,
): ReadonlyMap<string, string> {
  const renamed = new Map<string, string>();
  for (const { name, parent, values } of partitions) {
    if (found.has(name)) continue;
    const former = [...found.values()].find(
      (one) => !wanted.has(one.name) && one.parent === parent && one.bound === values.normal,
    );
    if (former) renamed.set(former.name, name);
  }
  return renamed;
}

export type PartitionAfter = {
  readonly schema: string;
  readonly name: string;
  /** Null: the table itself. */
  readonly parent: string | null;
  /** It holds rows itself. */
  readonly isLeaf: boolean;
};

/** What a table has once all changes of a plan are made; parents before their parts. */
export function partitionsAfter(live: LiveTable, changes: readonly Change[]): PartitionAfter[] {
  const gone = new Set<string>();
  const renamed = new Map<string, string>();
  const added: PartitionAfter[] = [];
  for (const change of changes) {
    if (!('table' in change) || keyOf(change.table) !== keyOf(live)) continue;
    if (change.kind === 'retire-partition') gone.add(change.partition.name);
    if (change.kind === 'rename-partition') renamed.set(change.partition.name, change.name);
    if (change.kind !== 'add-partition') continue;
    const { partition, back } = change;
    const { schema, name, parent, by } = partition;
    added.push({ schema, name, parent, isLeaf: by === null });
    // What comes back has its own partitions with it.
    for (const one of back?.partitioning?.partitions ?? [])
      added.push({ ...one, parent: one.parent ?? name, isLeaf: one.by === null });
  }
  const kept = (live.partitioning?.partitions ?? []).flatMap((one): PartitionAfter[] => {
    // What is part of something that goes, goes with it.
    if (one.parent !== null && gone.has(one.parent)) gone.add(one.name);
    if (gone.has(one.name)) return [];
    const { schema, name, parent, by } = one;
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
