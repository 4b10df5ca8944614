// Sequences without an owning column: numbers of invoices or tickets, or numbers that several tables share.
import { z } from 'zod';
import { bound, choice, count, flag, named, text } from './kinds.ts';
import { comment } from './tables/field-keys.ts';

/** Digits as written: a JavaScript number would round large values. */
const whole = (description: string): z.ZodString =>
  bound(description).regex(/^[-+]?\d{1,19}$/, 'is not a whole number of at most 19 digits');

const sequence = z
  .strictObject({
    type: choice('Type of its numbers', ['bigint', 'integer', 'smallint']),
    start: whole('First number; default: the minimum, or the maximum of a descending sequence').optional(),
    increment: whole('Difference between two numbers; negative for a descending sequence').default('1'),
    min: whole('Minimum; default: 1, or the minimum of the type').optional(),
    max: whole('Maximum; default: the maximum of the type, or -1').optional(),
    cache: count('Numbers that a connection reserves at once; unused ones are lost', {
      absent: 1,
      least: 1,
    }),
    cycle: flag('Restart after the last number; otherwise this is an error'),
    usage: z
      .union([z.string().min(1, 'must not be empty'), z.array(z.string().min(1, 'must not be empty'))])
      .meta({
        description:
          'Roles that can use the sequence; default: the three API roles. A default that calls `nextval` ' +
          'runs with the rights of the inserting role',
        examples: [['authenticated']],
      })
      .transform((roles) => (typeof roles === 'string' ? [roles] : roles))
      .optional(),
    schema: text('PostgreSQL schema').default('public').meta({ description: 'PostgreSQL schema' }),
    comment,
    renamed_from: text('Earlier name of the sequence; it keeps its current value').optional(),
  })
  .transform(({ renamed_from: renamedFrom, ...same }) => ({ ...same, renamedFrom }));

export const sequences = named(
  "Sequences by name, for numbers that no column owns: `default: { sql: nextval('tickets') }`. No change of " +
    'the file resets the current value. A sequence that you remove from the file stays until it is pruned',
  sequence,
);

export type RawSequence = z.infer<typeof sequence>;
