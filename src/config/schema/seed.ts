// `seed`: initial users, rows and files of a database, for development, tests and new installations.
import { z } from 'zod';
import { MODES } from '../mode.ts';
import { asWritten, choice, COMMON, flag, list, secret, text } from './kinds.ts';

const user = z.strictObject({
  as: text('Name of the user in rows of seeds: `{ user: ann }`', 'ann'),
  email: text('Email address', 'ann@example.com'),
  password: secret('At least six characters; use a reference in production'),
  id: text(
    'Id; default: derived from the names of the entry and the user, the same in every database',
  ).optional(),
  confirmed: flag('Whether the address counts as confirmed', true),
  metadata: z.record(z.string(), z.unknown()).meta({ description: 'Becomes `user_metadata`' }).optional(),
  app_metadata: z.record(z.string(), z.unknown()).meta({ description: 'Added to `app_metadata`' }).optional(),
});

const rowFile = z
  .strictObject({ file: text('CSV, JSON or NDJSON, relative to svc.yaml', 'seed/todos.csv') })
  .meta({ description: 'A file with the rows' });

const row = z
  .record(z.string(), z.unknown())
  .meta({ description: 'Values by column; `{ user: <as> }` is that user’s id' });

const entry = z
  .strictObject({
    name: text('Name under which the database records this entry', 'demo'),
    modes: z
      .array(z.enum(MODES))
      .min(1, 'must name at least one mode')
      .prefault(['development', 'test'])
      .meta({ description: 'Modes in which the entry runs' }),
    on_conflict: choice('Action for a row whose key exists', ['keep', 'update']),
    users: list('Users who can sign in', user).meta(COMMON),
    rows: z
      .record(z.string(), z.union([rowFile, z.array(row)]))
      .prefault({})
      .meta({ description: 'Rows by table', ...COMMON }),
    objects: z
      .record(z.string(), asWritten())
      .prefault({})
      .meta({ description: 'Folders by bucket; a file’s path under the folder is its name in the bucket' }),
    sql: text('SQL file that runs last, as the owner of the tables', 'seed/more.sql').optional(),
  })
  .transform(({ on_conflict: onConflict, ...same }) => ({ ...same, onConflict }));

export const seed = list(
  'Initial data of a database, inserted by `svc dev` and `svc seed`, never by a migration',
  entry,
);

export type RawSeedEntry = z.infer<typeof entry>;
