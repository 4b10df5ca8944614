// Converts the partitions of a table to keys of the file, and notes the partitions that the file cannot express.
import type { LivePartition, LivePartitioning } from '../schema/partitions.ts';
import { timedPartitionsKey } from './pulled-objects/timed-partitions.ts';

type Node = Record<string, unknown>;

/** The file can express partitions and subpartitions. */
const MAX_DEPTH = 2;

type Partitioned = {
  readonly partitioning: LivePartitioning | null;
  readonly schema: string;
  readonly name: string;
};

export function partitioningKeys(table: Partitioned, notes: string[], now = new Date()): Node {
  const { partitioning, schema } = table;
  if (partitioning === null) return {};
  const by = keyNode(partitioning);
  if (by === null) {
    notes.push(`partitioning by ${partitioning.key}`);
    return {};
  }
  const timed = timedPartitionsKey(table, partitioning, now);
  if (timed !== null) return { partition_by: by, partitions: timed };
  const listPartitions = (parent: string | null, depth: number): Node[] =>
    partitioning.partitions
      .filter((partition) => partition.parent === parent)
      .flatMap((item): Node[] => {
        const further = item.by && depth < MAX_DEPTH ? keyNode(item.by) : null;
        if (item.schema !== schema)
          notes.push(`partition ${item.schema}.${item.name}: it is in another schema`);
        else if (item.by !== null && further === null)
          notes.push(`partition ${item.name}: partitioning by ${item.by.key}`);
        else {
          const parts = further === null ? [] : listPartitions(item.name, depth + 1);
          return [
            {
              name: item.name,
              values: partitionValues(item),
              ...(further === null ? {} : { partition_by: further, partitions: parts }),
            },
          ];
        }
        return [];
      });
  const partitions = listPartitions(null, 1);
  return { partition_by: by, ...(partitions.length === 0 ? {} : { partitions }) };
}

function keyNode({ strategy, keys }: NonNullable<LivePartition['by']>): Node | null {
  return keys === null ? null : { [strategy]: keys };
}

function partitionValues({ bound }: LivePartition): string {
  if (bound === 'DEFAULT') return 'default';
  return bound
    .replace(/^FOR VALUES FROM (\(.*\)) TO (\(.*\))$/s, 'from $1 to $2')
    .replace(/^FOR VALUES IN /, 'in ')
    .replace(/^FOR VALUES WITH /, 'with ');
}
