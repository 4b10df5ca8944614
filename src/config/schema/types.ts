// Types of the database that the file makes, for its columns and functions to use.
import { z } from 'zod';
import { asWritten, named, text } from './kinds.ts';

const type = z
  .strictObject({
    enum: z
      .array(asWritten())
      .min(1, 'must list at least one value')
      .meta({
        description: 'The values, in the order in which they sort',
        examples: [['free', 'pro', 'team']],
      }),
    renamed_values: z
      .record(z.string(), asWritten())
      .meta({
        description: 'Values that were renamed, old: new; rows keep them. Harmless once that is done',
        examples: [{ team: 'business' }],
      })
      .optional(),
    schema: text('PostgreSQL schema').default('public').meta({ description: 'PostgreSQL schema' }),
    comment: text('Comment on the type in the database').optional(),
    renamed_from: text('Earlier name of the type; columns keep their values').optional(),
  })
  .transform(({ enum: values, renamed_values: renamedValues, renamed_from: renamedFrom, ...same }) => ({
    ...same,
    values,
    renamedValues,
    renamedFrom,
  }));

export const types = named('Types by name; fields and functions use them like those of PostgreSQL', type);

export type RawType = z.infer<typeof type>;
