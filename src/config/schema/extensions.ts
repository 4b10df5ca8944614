// Extensions of PostgreSQL: by name, or with where and which.
import { z } from 'zod';
import { flag, text } from './kinds.ts';

const name = text('Name of the extension', 'pg_trgm', 'citext');

const extension = z.strictObject({
  name,
  schema: text('Schema of its types and functions; `extensions` when absent').optional(),
  version: text('Version; when absent, what the server has').optional(),
  cascade: flag('Install what it needs as well'),
});

export const extensions = z
  .array(
    z
      .union([name.transform((only) => ({ name: only, cascade: false })), extension])
      .meta({ description: 'A name, or a map' }),
  )
  .prefault([])
  .meta({
    description:
      'Extensions of PostgreSQL that the file uses. Made before anything else; those that leave the list stay until they are pruned',
    examples: [['pg_trgm', { name: 'postgis', schema: 'postgis' }]],
  });

export type RawExtension = z.infer<typeof extensions>[number];
