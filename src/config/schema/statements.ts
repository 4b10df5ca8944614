// What SQL files make that has no key of its own. `svc config print` and `svc migrate pull` write these entries; people
// write SQL files.
import { z } from 'zod';
import { list, named, sqlBody } from './kinds.ts';
import { comment } from './tables/field-keys.ts';

const CREATES =
  /^\s*create\s+(or\s+replace\s+)?(aggregate|statistics|type|rule|operator|cast|collation|text\s+search\s+(configuration|dictionary))(\s|\()/i;

const statement = z.strictObject({
  create: sqlBody(
    'The statement that makes it: `CREATE AGGREGATE`, `STATISTICS`, `TYPE … AS RANGE`, `RULE`, `OPERATOR`, `CAST`, `COLLATION`, `TEXT SEARCH CONFIGURATION` or `TEXT SEARCH DICTIONARY`',
  ).regex(
    CREATES,
    'makes nothing that could stand here: aggregates, statistics, range types, rules, operators, casts, collations, text search configurations and dictionaries can',
  ),
  alter: list(
    'Statements that complete it: the mappings of a text search configuration, the target of statistics',
    z.string(),
  ),
  execute: z
    .union([z.string().min(1, 'must not be empty'), z.array(z.string().min(1, 'must not be empty'))])
    .meta({
      description: 'Roles that may run it, of an aggregate. Nobody without it',
      examples: [['authenticated']],
    })
    .transform((roles) => (typeof roles === 'string' ? [roles] : roles))
    .optional(),
  comment,
});

export const statements = named(
  'What SQL files make that has no key of its own, by a name for messages. These entries are what `svc config print` and `svc migrate pull` write; write [SQL files](sql-files.md) yourself',
  statement,
);

export type RawStatement = z.infer<typeof statement>;
