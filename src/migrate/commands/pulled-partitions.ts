// The partitions of a table in the words of the file, and what of them it cannot say.
import type { LivePartition, LivePartitioning } from '../schema/partitions.ts';

type Node = Record<string, unknown>;

/** How deep the file goes: partitions, and the partitions of these. */
const DEEPEST = 2;

export function partitioningKeys(
  { partitioning, schema }: { readonly partitioning: LivePartitioning | null; readonly schema: string },
  notes: string[],
): Node {
  if (partitioning === null) return {};
  const by = keyNode(partitioning);
  if (by === null) {
    notes.push(`that it is partitioned by ${partitioning.key}`);
    return {};
  }
  const partsOf = (parent: string | null, depth: number): Node[] =>
    partitioning.partitions
      .filter((one) => one.parent === parent)
      .flatMap((one): Node[] => {
        const further = one.by && depth < DEEPEST ? keyNode(one.by) : null;
        if (one.schema !== schema) notes.push(`partition ${one.schema}.${one.name}: it is in another schema`);
        else if (one.by !== null && further === null)
          notes.push(`partition ${one.name}: that it is partitioned by ${one.by.key}`);
        else {
          const parts = further === null ? [] : partsOf(one.name, depth + 1);
          return [
            {
              name: one.name,
              values: valuesOf(one),
              ...(further === null ? {} : { partition_by: further, partitions: parts }),
            },
          ];
        }
        return [];
      });
  const partitions = partsOf(null, 1);
  return { partition_by: by, ...(partitions.length === 0 ? {} : { partitions }) };
}

function keyNode({ strategy, keys }: NonNullable<LivePartition['by']>): Node | null {
  return keys === null ? null : { [strategy]: keys };
}

function valuesOf({ bound }: LivePartition): string {
  if (bound === 'DEFAULT') return 'default';
  return bound
    .replace(/^FOR VALUES FROM (\(.*\)) TO (\(.*\))$/s, 'from $1 to $2')
    .replace(/^FOR VALUES IN /, 'in ')
    .replace(/^FOR VALUES WITH /, 'with ');
}
