// Tables and buckets, with their row-level security policies.
import { z } from 'zod';
import {
  anyDefault,
  asWritten,
  bound,
  COMMON,
  flag,
  list,
  named,
  size,
  sqlExpression,
  text,
} from '../kinds.ts';
import { grants } from './grants.ts';
import { constraint } from './constraints.ts';
import { collate, comment, generated, identity, referenceKeys } from './field-keys.ts';
import { partitionKey, partitions } from './partitions.ts';
import { policies, policy } from './policies.ts';
import { tableRealtime } from '../realtime.ts';
import { tableTrigger } from './triggers.ts';

const foreignKey = z
  .strictObject({
    references: text('`table.column` or `schema.table.column`', 'lists.id', 'auth.users.id').meta(COMMON),
    ...referenceKeys,
    on_delete: referenceKeys.on_delete.meta(COMMON),
  })
  .meta({ description: 'Reference to another table' })
  .transform(({ on_delete: onDelete, on_update: onUpdate, ...same }) => ({ ...same, onDelete, onUpdate }));

const field = z
  .strictObject({
    name: text('Column name').meta(COMMON),
    type: text(
      'PostgreSQL type. Optional with `foreign_key`: the type then follows the referenced column',
      'text',
      'uuid',
      'timestamptz',
      'bigserial',
      'numeric(10,2)',
      'text[]',
    )
      .meta(COMMON)
      .optional(),
    primary_key: flag('Part of the primary key; several columns form a composite key, in this order').meta(
      COMMON,
    ),
    required: flag('NOT NULL').meta(COMMON),
    unique: flag('UNIQUE').meta(COMMON),
    default: anyDefault.meta(COMMON),
    enum: z
      .array(asWritten())
      .min(1, 'must list at least one value')
      .meta({ description: 'Allowed values', ...COMMON })
      .optional(),
    pattern: text('Regular expression of PostgreSQL that text must match').optional(),
    min: bound('Minimum value').optional(),
    max: bound('Maximum value').optional(),
    check: sqlExpression('SQL condition on the row').meta(COMMON).optional(),
    foreign_key: foreignKey.optional(),
    ref: text(
      'Bucket of the stored object whose path the column contains: `storage.<bucket>`',
      'storage.avatars',
    ).optional(),
    on_delete: z
      .enum(['cascade', 'keep'])
      .default('keep')
      .meta({ description: 'With `ref`: whether the object is deleted with the row' }),
    renamed_from: text('Earlier name of the column; its data is kept. No effect after the rename')
      .meta(COMMON)
      .optional(),
    backfill: sqlExpression(
      'SQL value for existing rows, used once when the column becomes required',
    ).optional(),
    using: sqlExpression('SQL expression that converts existing values when the type changes').optional(),
    on_update: z
      .union([
        z.enum(['now()', 'current_date']),
        z.strictObject({ sql: sqlExpression('SQL expression over `old` and `new`') }),
      ])
      .meta({
        description:
          'Value that each changing update sets: `now()`, `current_date`, or `{ sql: <expression> }`',
        examples: ['now()', { sql: 'old.version + 1' }],
      })
      .transform((value) => (typeof value === 'string' ? value : value.sql))
      .optional(),
    generated,
    identity,
    collate,
    comment,
  })
  .transform(({ primary_key, foreign_key, on_delete, renamed_from, on_update, ...same }) => ({
    ...same,
    onUpdate: on_update,
    primaryKey: primary_key,
    foreignKey: foreign_key,
    onDelete: on_delete,
    renamedFrom: renamed_from,
  }));

/** Options whose values are read as text in their written form. */
const options = (description: string, example: Record<string, unknown>): z.ZodOptional<OptionMap> =>
  z
    .record(z.string().regex(/^[a-z_][a-z0-9_]*$/, 'is not the name of an option'), asWritten())
    .meta({ description, examples: [example] })
    .optional();
type OptionMap = z.ZodRecord<z.ZodString, z.ZodString>;

const indexPart = z
  .strictObject({
    column: text('Column name').optional(),
    expression: sqlExpression('SQL expression over the row, instead of a column').optional(),
    order: z.enum(['asc', 'desc']).meta({ description: 'Order; default: ascending' }).optional(),
    nulls: z
      .enum(['first', 'last'])
      .meta({ description: 'Position of nulls; default: last if ascending, first if descending' })
      .optional(),
    opclass: text('Operator class; default: that of the type', 'text_pattern_ops').optional(),
    opclass_options: options('Options of the operator class', { siglen: 32 }),
    collate: text('Collation; default: that of the column', 'C').optional(),
  })
  .meta({ description: 'A column or an expression, and how it is indexed' })
  .transform(({ opclass_options: opclassOptions, ...same }) => ({ ...same, opclassOptions }));

export const index = z
  .strictObject({
    columns: z
      .array(z.union([text('Column name'), indexPart]).meta({ description: 'A column, or a map' }))
      .min(1, 'must name at least one column')
      .meta({ description: 'Columns and expressions, in order', ...COMMON }),
    unique: flag('Two rows cannot have equal values').meta(COMMON),
    where: sqlExpression('SQL condition; only matching rows are indexed').optional(),
    using: text(
      'Kind of index: `btree`, `hash`, `gin`, `gist`, `spgist`, `brin`, or one of an extension',
      'gin',
    )
      .meta({ default: 'btree' })
      .optional(),
    include: z
      .array(text('Column name'))
      .min(1, 'must name at least one column')
      .meta({ description: 'Additional columns in the index, so that PostgreSQL need not read the table' })
      .optional(),
    with: options('Storage parameters', { fillfactor: 70 }),
    nulls_not_distinct: flag('With `unique`: two nulls are equal'),
    name: text('Name of the index; default: built from table and columns').optional(),
  })
  .transform(({ nulls_not_distinct: nullsNotDistinct, ...same }) => ({ ...same, nullsNotDistinct }));

const newUserValues = z
  .record(z.string(), sqlExpression('SQL expression over the new user'))
  .refine((values) => Object.keys(values).length > 0, 'must name at least one column')
  .meta({ description: 'SQL expressions by column' });

const table = z
  .strictObject({
    schema: text('PostgreSQL schema').default('public').meta({ description: 'PostgreSQL schema' }),
    fields: z
      .array(field)
      .min(1, 'must declare at least one column')
      .meta({ description: 'Columns; svc adds none automatically' }),
    indexes: list('Indexes in addition to those of keys', index),
    constraints: list('Keys and checks over several columns', constraint),
    rls: z
      .union([z.literal(false), z.array(policy)])
      .meta({
        description:
          'Row-level security policies. An empty list closes the table, and `false` leaves it open. Without ' +
          'the key it is open, with a warning',
      })
      .optional(),
    grants,
    on_new_user: z
      .union([
        z.strictObject({
          set: newUserValues,
          when: sqlExpression('SQL condition on the user; only matching users get a row').optional(),
        }),
        newUserValues.transform((set) => ({ set, when: undefined })),
      ])
      .meta({
        description:
          'Row for each new user: SQL expressions by column, which can use `id`, `email`, `phone`, ' +
          '`raw_user_meta_data`, `raw_app_meta_data`, `is_anonymous` and `created_at` of the user; or `{ ' +
          'set, when }`',
        examples: [{ id: 'id', name: "raw_user_meta_data ->> 'name'" }],
      })
      .optional(),
    comment,
    realtime: tableRealtime,
    unlogged: flag(
      'Skip the write-ahead log: writes are faster, but the table is empty after a crash and missing on replicas',
    ),
    with: options('Storage parameters', { fillfactor: 70 }),
    partition_by: partitionKey.optional(),
    partitions: partitions
      .meta({
        description:
          'With `partition_by`: a list, or `{ every, ahead, keep, from }` for partitions by time that svc maintains',
        examples: [{ every: '1 month', ahead: 3, keep: '24 months' }],
      })
      .optional(),
    triggers: z.array(tableTrigger).meta({ description: 'Triggers, in the order of their names' }).optional(),
    renamed_from: text('Earlier name of the table; its data is kept').optional(),
    protect: flag('Never prune or rewrite the table, even if another option allows it'),
  })
  .transform(({ renamed_from: renamedFrom, on_new_user: onNewUser, partition_by: partitionBy, ...same }) => ({
    ...same,
    onNewUser,
    renamedFrom,
    partitionBy,
  }));

const bucket = z
  .strictObject({
    public: flag('Anyone can download by URL').meta(COMMON),
    max_size: size('Maximum size of an upload', '50MB').meta(COMMON),
    types: list(
      'Allowed MIME types; an empty list allows all',
      z.string().regex(/^[\w.+-]+\/(\*|[\w.+-]+)$/, 'is not a MIME type such as image/png or image/*'),
      [['image/*', 'application/pdf']],
    ).meta(COMMON),
    rls: policies('Policies on the bucket’s objects; without any, only the secret key has access').meta(
      COMMON,
    ),
  })
  .transform(({ max_size: maxSizeBytes, ...same }) => ({ ...same, maxSizeBytes }));

export const tables = named('Tables by name', table);
export const storage = named(
  'Buckets by name; buckets exist only in this file',
  bucket.nullable().transform((found) => found ?? bucket.parse({})),
);

export type RawTable = z.infer<typeof table>;
export type RawField = z.infer<typeof field>;
export type RawBucket = z.infer<typeof bucket>;
export type RawIndex = z.infer<typeof index>;
