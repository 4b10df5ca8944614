// Database types that the file declares for its columns and functions.
import { z } from 'zod';
import { collate, comment } from './tables/field-keys.ts';
import { anyDefault, asWritten, COMMON, flag, named, sqlExpression, text } from './kinds.ts';

const type = z
  .strictObject({
    enum: z
      .array(asWritten())
      .min(1, 'must list at least one value')
      .meta({
        description: 'Enum type: its values, in sort order',
        examples: [['free', 'pro', 'team']],
        ...COMMON,
      })
      .optional(),
    renamed_values: z
      .record(z.string(), asWritten())
      .meta({
        description: 'For an enum: renamed values, `old: new`; rows keep them. No effect after the rename',
        examples: [{ team: 'business' }],
      })
      .optional(),
    domain: text('Domain: the type that it restricts', 'text', 'numeric(10,2)').optional(),
    check: z
      .union([
        sqlExpression('SQL condition on `value`'),
        z.array(sqlExpression('SQL condition on `value`')).min(1),
      ])
      .meta({
        description: 'For a domain: SQL condition on `value`, or a list of conditions',
        examples: ["value ~ '@'"],
      })
      .transform((checks) => (typeof checks === 'string' ? [checks] : checks))
      .optional(),
    not_null: flag('For a domain: values cannot be null'),
    default: anyDefault,
    collate,
    composite: z
      .record(z.string(), text('PostgreSQL type'))
      .refine((attributes) => Object.keys(attributes).length > 0, 'must have at least one attribute')
      .meta({
        description: 'Composite type: types by attribute, in order',
        examples: [{ low: 'integer', high: 'integer' }],
      })
      .optional(),
    schema: text('PostgreSQL schema').default('public').meta({ description: 'PostgreSQL schema' }),
    comment,
    renamed_from: text('Earlier name of the type; columns keep their values').optional(),
  })
  .transform(
    ({
      enum: values,
      renamed_values: renamedValues,
      check: checks,
      not_null: notNull,
      renamed_from: renamedFrom,
      ...same
    }) => ({ ...same, values, renamedValues, checks, notNull, renamedFrom }),
  );

export const types = named('Types by name; fields and functions use them like built-in types', type);

export type RawType = z.infer<typeof type>;
