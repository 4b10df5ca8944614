// Types of the database that the file makes, for its columns and functions to use.
import { z } from 'zod';
import { collate, comment } from './tables/field-keys.ts';
import { anyDefault, asWritten, flag, named, sqlExpression, text } from './kinds.ts';

const type = z
  .strictObject({
    enum: z
      .array(asWritten())
      .min(1, 'must list at least one value')
      .meta({
        description: 'An enum type: its values, in the order in which they sort',
        examples: [['free', 'pro', 'team']],
      })
      .optional(),
    renamed_values: z
      .record(z.string(), asWritten())
      .meta({
        description:
          'Of an enum: values that were renamed, old: new; rows keep them. Harmless once that is done',
        examples: [{ team: 'business' }],
      })
      .optional(),
    domain: text('A domain: the type that it restricts', 'text', 'numeric(10,2)').optional(),
    check: z
      .union([
        sqlExpression('SQL condition on `value`'),
        z.array(sqlExpression('SQL condition on `value`')).min(1),
      ])
      .meta({
        description: 'Of a domain: an SQL condition on `value`, or a list of them',
        examples: ["value ~ '@'"],
      })
      .transform((said) => (typeof said === 'string' ? [said] : said))
      .optional(),
    not_null: flag('Of a domain: no value of it is null'),
    default: anyDefault,
    collate,
    composite: z
      .record(z.string(), text('PostgreSQL type'))
      .refine((attributes) => Object.keys(attributes).length > 0, 'must have at least one attribute')
      .meta({
        description: 'A composite type: types by attribute, in order',
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

export const types = named('Types by name; fields and functions use them like those of PostgreSQL', type);

export type RawType = z.infer<typeof type>;
