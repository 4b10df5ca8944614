// The partitions of a table once the changes of a plan are made.
import type { Change } from '../diff/change.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import { keyOf } from '../schema/model.ts';

export type PartitionAfter = {
  readonly schema: string;
  readonly name: string;
  /** Null: the table itself. */
  readonly parent: string | null;
  /** It holds rows itself. */
  readonly isLeaf: boolean;
};

/** Parents before their parts. */
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
