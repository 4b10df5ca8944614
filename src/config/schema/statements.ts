// Objects of SQL files without their own key. `svc config print` and `svc migrate pull` write these entries. People
// write SQL files.
import { z } from 'zod';
import { list, named, sqlBody } from './kinds.ts';
import { comment } from './tables/field-keys.ts';

const CREATABLE = [
  'aggregate|statistics|type|rule|operator|cast|collation',
  'text\\s+search\\s+(configuration|dictionary)',
];
const CREATES = new RegExp(`^\\s*create\\s+(or\\s+replace\\s+)?(${CREATABLE.join('|')})(\\s|\\()`, 'i');

const statement = z.strictObject({
  create: sqlBody(
    'Statement that creates the object: `CREATE AGGREGATE`, `STATISTICS`, `TYPE … AS RANGE`, `RULE`, ' +
      '`OPERATOR`, `CAST`, `COLLATION`, `TEXT SEARCH CONFIGURATION` or `TEXT SEARCH DICTIONARY`',
  ).regex(
    CREATES,
    'must create an aggregate, statistics, range type, rule, operator, cast, collation, text search ' +
      'configuration or text search dictionary',
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
  'Objects of SQL files without another key, by a name for messages. `svc config print` and `svc migrate ' +
    'pull` write these entries; write [SQL files](sql-files.md) yourself',
  statement,
);

export type RawStatement = z.infer<typeof statement>;
