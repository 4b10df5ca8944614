// Sequences that belong to no column: numbers for invoices, tickets, or several tables.
import { z } from 'zod';
import { bound, choice, count, flag, named, text } from './kinds.ts';
import { comment } from './tables/field-keys.ts';

/** Digits as written: a JavaScript number would round the largest. */
const whole = (description: string): z.ZodString =>
  bound(description).regex(/^[-+]?\d{1,19}$/, 'is not a whole number of at most 19 digits');

const sequence = z
  .strictObject({
    type: choice('Type of its numbers', ['bigint', 'integer', 'smallint']),
    start: whole('First number; when absent, the least, or the greatest of one that counts down').optional(),
    increment: whole('From one number to the next; below 0 it counts down').default('1'),
    min: whole('Least number; when absent, 1, or the least of the type').optional(),
    max: whole('Greatest number; when absent, the greatest of the type, or -1').optional(),
    cache: count('Numbers that a connection takes at once; what it does not use is lost', {
      absent: 1,
      least: 1,
    }),
    cycle: flag('Begin anew at the end; otherwise the end is an error'),
    usage: z
      .union([z.string().min(1, 'must not be empty'), z.array(z.string().min(1, 'must not be empty'))])
      .meta({
        description:
          'Roles that may take numbers; absent, the three API roles. A default that calls `nextval` runs with the rights of whoever inserts',
        examples: [['authenticated']],
      })
      .transform((roles) => (typeof roles === 'string' ? [roles] : roles))
      .optional(),
    schema: text('PostgreSQL schema').default('public').meta({ description: 'PostgreSQL schema' }),
    comment,
    renamed_from: text('Earlier name of the sequence; it goes on where it stands').optional(),
  })
  .transform(({ renamed_from: renamedFrom, ...same }) => ({ ...same, renamedFrom }));

export const sequences = named(
  "Sequences by name, for what no column numbers by itself: `default: { sql: nextval('tickets') }`. Where one stands is nothing the file says: no change begins it anew. One that leaves the file stays until it is pruned",
  sequence,
);

export type RawSequence = z.infer<typeof sequence>;
