// What SQL files make that has no key of its own. `svc config print` and `svc migrate pull` write these entries; people
// write SQL files.
import { z } from 'zod';
import { list, named, sqlBody } from './kinds.ts';
import { comment } from './tables/field-keys.ts';

const CREATES =
  /^\s*create\s+(or\s+replace\s+)?(aggregate|statistics|type|rule|operator|cast|collation|text\s+search\s+(configuration|dictionary))(\s|\()/i;

const statement = z.strictObject({
  create: sqlBody(
    'Statement that creates the object: `CREATE AGGREGATE`, `STATISTICS`, `TYPE … AS RANGE`, `RULE`, `OPERATOR`, `CAST`, `COLLATION`, `TEXT SEARCH CONFIGURATION` or `TEXT SEARCH DICTIONARY`',
  ).regex(
    CREATES,
    'makes nothing that could stand here: aggregates, statistics, range types, rules, operators, casts, collations, text search configurations and dictionaries can',
  ),
  alter: list(
    'Statements that complete the object: mappings of a text search configuration, the target of statistics',
    z.string(),
  ),
  execute: z
    .union([z.string().min(1, 'must not be empty'), z.array(z.string().min(1, 'must not be empty'))])
    .meta({
      description: 'For an aggregate: roles that can run it; default: none',
      examples: [['authenticated']],
    })
    .transform((roles) => (typeof roles === 'string' ? [roles] : roles))
    .optional(),
  comment,
});

export const statements = named(
  'Objects of SQL files without another key, by a name for messages. `svc config print` and `svc migrate pull` write these entries; write [SQL files](sql-files.md) yourself',
  statement,
);

export type RawStatement = z.infer<typeof statement>;
