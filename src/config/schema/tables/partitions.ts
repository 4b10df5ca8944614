// Partitions of a table: the partition key, and the partitions.
import { z } from 'zod';
import { SQL_MEDIA_TYPE, text } from '../kinds.ts';

const STRATEGIES = ['range', 'list', 'hash'] as const;
export type Strategy = (typeof STRATEGIES)[number];

const UNITS = ['hour', 'day', 'week', 'month', 'year'] as const;
export type Unit = (typeof UNITS)[number];

/** A calendar duration. Months and years differ in length. */
export type Span = { readonly count: number; readonly unit: Unit };

const MAX_PARTITIONS_AHEAD = 1_000;

const parts = (description: string): z.ZodOptional<z.ZodArray<z.ZodString>> =>
  z
    .array(text('Column name, or an SQL expression over the row', 'at', 'lower(name)'))
    .min(1, 'must name at least one column')
    .meta({ description })
    .optional();

export const partitionKey = z
  .strictObject({
    range: parts('Each partition contains the rows between two values'),
    list: parts('Each partition contains the rows with listed values'),
    hash: parts('Rows are distributed by a hash'),
  })
  .refine(
    (key) => Object.values(key).filter((columns) => columns !== undefined).length === 1,
    'must be one of range, list and hash',
  )
  .meta({
    description: 'Partition key',
    examples: [{ range: ['at'] }],
  })
  .transform((key) => {
    const strategy = STRATEGIES.find((candidate) => key[candidate] !== undefined) ?? 'range';
    return { strategy, keys: key[strategy] ?? [] };
  });

const values = z
  .string()
  .regex(/\S/, 'must not be empty')
  .meta({
    description:
      'Rows of the partition: `from (…) to (…)`, `in (…)`, `with (modulus …, remainder …)`, or `default` ' +
      'for all others. Times without a zone are UTC',
    examples: ["from ('2026-01-01') to ('2027-01-01')", "in ('de', 'fr')", 'default'],
    contentMediaType: SQL_MEDIA_TYPE,
  });

const leaf = z.strictObject({ name: text('Name of the partition, which is a table'), values });

const partition = leaf
  .extend({
    partition_by: partitionKey.optional(),
    partitions: z
      .array(leaf)
      .min(1, 'must list at least one partition')
      .meta({ description: 'With `partition_by`: partitions of this partition' })
      .optional(),
  })
  .meta({ description: 'A partition, and its rows' })
  .transform(({ partition_by, ...same }) => ({ ...same, partitionBy: partition_by }));

/** Parses `3 months`. */
const span = (
  description: string,
  ...examples: string[]
): z.ZodPipe<z.ZodString, z.ZodTransform<Span, string>> =>
  z
    .string()
    .regex(/^[1-9]\d{0,3} (hour|day|week|month|year)s?$/, 'is not a time such as 1 month or 14 days')
    .meta({ description, examples })
    .transform((written) => {
      const [count = '', unit = ''] = written.split(' ');
      return { count: Number(count), unit: unit.replace(/s$/, '') as Unit };
    });

const kept = z
  .strictObject({
    every: span('Time range of a partition', '1 month', '1 day'),
    ahead: z
      .number()
      .int('must be a whole number')
      .min(1, 'must be at least 1')
      .max(MAX_PARTITIONS_AHEAD, `must be at most ${MAX_PARTITIONS_AHEAD}`)
      .default(3)
      .meta({ description: 'Number of partitions that are created ahead of time' }),
    keep: span(
      'Age at which a partition is retired; its rows are kept. Default: never',
      '24 months',
    ).optional(),
    from: z
      .union([z.iso.date(), z.iso.datetime({ offset: true })])
      .meta({
        description: 'First day with a partition; default: today',
        examples: ['2024-01-01'],
      })
      .optional(),
  })
  .meta({
    description: 'Partitions that svc creates ahead of time and detaches when they are old',
  });

export const partitions = z.union([
  z.array(partition).meta({ description: 'Partitions with their rows' }),
  kept,
]);

/** Distinguishes a list of partitions from a schedule. */
export function isListed<T>(
  partitions: readonly T[] | object | null | undefined,
): partitions is readonly T[] {
  return Array.isArray(partitions);
}

export type RawPartitionKey = z.infer<typeof partitionKey>;
export type RawPartition = z.infer<typeof partition>;
export type RawLeaf = z.infer<typeof leaf>;
export type RawPartitions = z.infer<typeof partitions>;
export type KeptPartitions = z.infer<typeof kept>;
