// Keys of fields and foreign keys: generated columns, identity, collation, comments and actions of references.
import { z } from 'zod';
import { choice, COMMON, flag, sqlExpression, text } from '../kinds.ts';

export const generated = z
  .union([
    sqlExpression('SQL expression over the other columns of the row'),
    z.strictObject({
      sql: sqlExpression('SQL expression over the other columns of the row'),
      virtual: flag('Computed on read, not stored; PostgreSQL 18 or newer'),
    }),
  ])
  .meta({
    description:
      'SQL expression over the other columns that computes the value; the column is read-only. Stored, or ' +
      '`{ sql, virtual: true }`',
    examples: ["to_tsvector('english', title)", { sql: 'price * amount', virtual: true }],
  })
  .transform((value) => (typeof value === 'string' ? { sql: value, virtual: false } : value))
  .optional();

export const identity = z
  .enum(['always', 'by_default'])
  .meta({
    description:
      'Numbered by the database. `by_default` accepts given values, like `bigserial`; `always` rejects them',
    ...COMMON,
  })
  .optional();

export const collate = text(
  'Collation: how text is compared and sorted; default: that of the database',
  'C',
  'en-x-icu',
).optional();

export const comment = z
  .string()
  .min(1, 'must not be empty')
  .meta({ description: 'Comment in the database, and description in the OpenAPI document' })
  .optional();

export const REFERENCE_ACTIONS = ['restrict', 'cascade', 'set_null', 'set_default', 'no_action'] as const;
export type ReferenceAction = (typeof REFERENCE_ACTIONS)[number];

/** Keys that both spellings of a foreign key accept in addition to its columns. */
export const referenceKeys = {
  on_delete: choice(
    'Action on this row when the referenced row is deleted; `no_action` is checked at the end of the ' +
      'statement, or of the transaction with `deferrable`',
    REFERENCE_ACTIONS,
  ),
  on_update: choice('Action on this row when the referenced value changes', REFERENCE_ACTIONS),
  deferrable: z
    .enum(['immediate', 'deferred'])
    .meta({
      description:
        'Check at the end of the transaction: always (`deferred`), or after `set constraints` (`immediate`)',
    })
    .optional(),
};
