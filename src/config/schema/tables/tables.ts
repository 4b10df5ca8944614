// Tables and buckets, with the row-level security policies that both have.
import { z } from 'zod';
import { anyDefault, asWritten, bound, flag, list, named, size, sqlExpression, text } from '../kinds.ts';
import { grants } from './grants.ts';
import { constraint } from './constraints.ts';
import { collate, comment, generated, identity, referenceKeys } from './field-keys.ts';
import { partitionKey, partitions } from './partitions.ts';
import { policies, policy } from './policies.ts';
import { tableRealtime } from '../realtime.ts';
import { tableTrigger } from './triggers.ts';

const foreignKey = z
  .strictObject({
    references: text('`table.column` or `schema.table.column`', 'lists.id', 'auth.users.id'),
    ...referenceKeys,
  })
  .meta({ description: 'Reference to another table' })
  .transform(({ on_delete: onDelete, on_update: onUpdate, ...same }) => ({ ...same, onDelete, onUpdate }));

const field = z
  .strictObject({
    name: text('Column name'),
    type: text(
      'PostgreSQL type. May be left out beside `foreign_key`: the type then follows the referenced column',
      'text',
      'uuid',
      'timestamptz',
      'bigserial',
      'numeric(10,2)',
      'text[]',
    ).optional(),
    primary_key: flag('Part of the primary key; several make a composite one, in this order'),
    required: flag('NOT NULL'),
    unique: flag('UNIQUE'),
    default: anyDefault,
    enum: z
      .array(asWritten())
      .min(1, 'must list at least one value')
      .meta({ description: 'The only values allowed' })
      .optional(),
    pattern: text('Regular expression (PostgreSQL’s) that text must match').optional(),
    min: bound('Least value allowed').optional(),
    max: bound('Greatest value allowed').optional(),
    check: sqlExpression('Any SQL condition on the row').optional(),
    foreign_key: foreignKey.optional(),
    ref: text(
      'The column holds the path of a stored object: `storage.<bucket>`',
      'storage.avatars',
    ).optional(),
    on_delete: z
      .enum(['cascade', 'keep'])
      .default('keep')
      .meta({ description: 'Only with `ref`: whether the object is deleted with the row' }),
    renamed_from: text(
      'Earlier name of the column; its data is kept. Harmless once the rename is done',
    ).optional(),
    backfill: sqlExpression(
      'SQL value for existing rows, used once when the column becomes required',
    ).optional(),
    using: sqlExpression('SQL expression that converts existing values when the type changes').optional(),
    on_update: z
      .union([
        z.enum(['now()', 'current_date']),
        z.strictObject({ sql: sqlExpression('Any SQL expression over `old` and `new`') }),
      ])
      .meta({
        description:
          'What each update that changes the row gives the column: `now()`, `current_date`, or `{ sql: <expression> }`',
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

/** Names with values that are taken as written. */
const options = (description: string, example: Record<string, unknown>): z.ZodOptional<OptionMap> =>
  z
    .record(z.string().regex(/^[a-z_][a-z0-9_]*$/, 'is not the name of an option'), asWritten())
    .meta({ description, examples: [example] })
    .optional();
type OptionMap = z.ZodRecord<z.ZodString, z.ZodString>;

const indexPart = z
  .strictObject({
    column: text('Column name').optional(),
    expression: sqlExpression('SQL expression over the row, in place of a column').optional(),
    order: z.enum(['asc', 'desc']).meta({ description: 'Ascending unless said' }).optional(),
    nulls: z
      .enum(['first', 'last'])
      .meta({ description: 'Where nulls come; last when ascending, first when descending' })
      .optional(),
    opclass: text('Operator class; that of the type when absent', 'text_pattern_ops').optional(),
    opclass_options: options('Options of the operator class', { siglen: 32 }),
    collate: text('Collation; that of the column when absent', 'C').optional(),
  })
  .meta({ description: 'A column or an expression, and how it is indexed' })
  .transform(({ opclass_options: opclassOptions, ...same }) => ({ ...same, opclassOptions }));

export const index = z
  .strictObject({
    columns: z
      .array(z.union([text('Column name'), indexPart]).meta({ description: 'A column, or a map' }))
      .min(1, 'must name at least one column')
      .meta({ description: 'Columns and expressions, in order' }),
    unique: flag('No two rows with equal values'),
    where: sqlExpression('SQL condition: only matching rows are indexed').optional(),
    using: text(
      'Kind of index: `btree`, `hash`, `gin`, `gist`, `spgist`, `brin`, or one of an extension',
      'gin',
    )
      .meta({ default: 'btree' })
      .optional(),
    include: z
      .array(text('Column name'))
      .min(1, 'must name at least one column')
      .meta({ description: 'More columns that the index holds, so that the table need not be read' })
      .optional(),
    with: options('Storage parameters', { fillfactor: 70 }),
    nulls_not_distinct: flag('With `unique`: two nulls are equal'),
    name: text('Label of the index; made from table and columns when absent').optional(),
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
      .meta({ description: 'Columns. None is added by itself' }),
    indexes: list('Indexes beside those of keys', index),
    constraints: list('Keys and conditions over several columns', constraint),
    rls: z
      .union([z.literal(false), z.array(policy)])
      .meta({
        description:
          'Row-level security policies. An empty list closes the table; `false` leaves it open on purpose; without the key it is open and warned about',
      })
      .optional(),
    grants,
    on_new_user: z
      .union([
        z.strictObject({
          set: newUserValues,
          when: sqlExpression('SQL condition on the user: nobody else gets a row').optional(),
        }),
        newUserValues.transform((set) => ({ set, when: undefined })),
      ])
      .meta({
        description:
          'A row for each new user: SQL expressions by column, which see `id`, `email`, `phone`, `raw_user_meta_data`, `raw_app_meta_data`, `is_anonymous` and `created_at` of the user; or `{ set, when }`',
        examples: [{ id: 'id', name: "raw_user_meta_data ->> 'name'" }],
      })
      .optional(),
    comment,
    realtime: tableRealtime,
    unlogged: flag('Not in the write-ahead log: faster to write, empty after a crash, not on replicas'),
    with: options('Storage parameters', { fillfactor: 70 }),
    partition_by: partitionKey.optional(),
    partitions: partitions
      .meta({
        description:
          'With `partition_by`: a list, or `{ every, ahead, keep, from }` for partitions by time that svc looks after',
        examples: [{ every: '1 month', ahead: 3, keep: '24 months' }],
      })
      .optional(),
    triggers: z.array(tableTrigger).meta({ description: 'Triggers, in the order of their names' }).optional(),
    renamed_from: text('Earlier name of the table; its data is kept').optional(),
    protect: flag('Never pruned and never rewritten, whatever is allowed elsewhere'),
  })
  .transform(({ renamed_from: renamedFrom, on_new_user: onNewUser, partition_by: partitionBy, ...same }) => ({
    ...same,
    onNewUser,
    renamedFrom,
    partitionBy,
  }));

const bucket = z
  .strictObject({
    public: flag('Anybody may download by URL'),
    max_size: size('Largest upload', '50MB'),
    types: list(
      'Allowed MIME types; an empty list allows all',
      z.string().regex(/^[\w.+-]+\/(\*|[\w.+-]+)$/, 'is not a MIME type such as image/png or image/*'),
      [['image/*', 'application/pdf']],
    ),
    rls: policies('Policies on the bucket’s objects; without any, only the secret key has access'),
  })
  .transform(({ max_size: maxSizeBytes, ...same }) => ({ ...same, maxSizeBytes }));

export const tables = named('Tables by name', table);
export const storage = named(
  'Buckets by name; they exist only here',
  bucket.nullable().transform((found) => found ?? bucket.parse({})),
);

export type RawTable = z.infer<typeof table>;
export type RawField = z.infer<typeof field>;
export type RawBucket = z.infer<typeof bucket>;
export type RawIndex = z.infer<typeof index>;
