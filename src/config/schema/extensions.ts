// Extensions of PostgreSQL, as a name or with schema and version.
import { z } from 'zod';
import { flag, text } from './kinds.ts';

const name = text('Name of the extension', 'pg_trgm', 'citext');

const extension = z.strictObject({
  name,
  schema: text('Schema of its types and functions; default: `extensions`').optional(),
  version: text('Version; default: that of the server').optional(),
  cascade: flag('Also install required extensions'),
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
      'Extensions of PostgreSQL that the file uses. svc creates them first; removed ones stay until they are pruned',
    examples: [['pg_trgm', { name: 'postgis', schema: 'postgis' }]],
  });

export type RawExtension = z.infer<typeof extensions>[number];
