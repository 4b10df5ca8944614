// The schema of svc.yaml, section by section. Validation, the defaults, the editor's JSON Schema and
// docs/configuration.md all come from it; what needs more than one key to judge is in check/.
import { z } from 'zod';
import { auth } from './auth.ts';
import { extensions } from './extensions.ts';
import { expose, functions, functionsBundle, rpc } from './functions.ts';
import { COMMON } from './kinds.ts';
import { realtime } from './realtime.ts';
import { schedules } from './events/schedules.ts';
import { seed } from './seed.ts';
import { sequences } from './sequences.ts';
import { database, include, migrations, project, providers, server, sqlFiles } from './settings.ts';
import { statements } from './statements.ts';
import { storage, tables } from './tables/tables.ts';
import { types } from './types.ts';
import { views } from './tables/views.ts';

export const svcSchema = z
  .strictObject({
    version: z.literal(1).meta({ description: 'Version of this file format', ...COMMON }),
    include,
    sql: sqlFiles,
    project,
    database,
    server,
    providers,
    auth,
    types,
    sequences,
    extensions,
    tables,
    views,
    statements,
    storage,
    realtime,
    rpc,
    functions,
    expose,
    functions_bundle: functionsBundle,
    schedules,
    seed,
    migrations,
  })
  .meta({ title: 'svc.yaml', description: 'The whole backend in one file' });

/** The checked file: defaults filled in, durations in milliseconds, sizes in bytes. */
export type SvcFile = z.infer<typeof svcSchema>;

/** JSON Schema, draft 2020-12, of the values as they are once variables are substituted. */
export function describeSchema(): Record<string, unknown> {
  return z.toJSONSchema(svcSchema, { target: 'draft-2020-12', io: 'input' });
}

/** JSON Schema for editors: accepts `${VAR}` for every value. */
export function toJsonSchema(): Record<string, unknown> {
  return withoutMarks(toMarkedJsonSchema());
}

/** The same with the marks of common keys. */
export function toMarkedJsonSchema(): Record<string, unknown> {
  return z.toJSONSchema(svcSchema, {
    target: 'draft-2020-12',
    io: 'input',
    // Keys are never substituted.
    override: ({ jsonSchema, path }) => {
      if (path.at(-1) !== 'propertyNames') acceptReferences(jsonSchema);
    },
  });
}

/** Removes the marks of common keys. A property called `common` stays, because its schema is not a truth value. */
export function withoutMarks(schema: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return JSON.parse(
    JSON.stringify(schema, (key, value: unknown) =>
      key === 'common' && typeof value === 'boolean' ? undefined : value,
    ),
  );
}

const REFERENCE = { type: 'string', pattern: '\\$\\{' } as const;

function acceptReferences(node: z.core.JSONSchema.BaseSchema): void {
  const { type, enum: options, pattern } = node;
  const isJudged = options !== undefined || pattern !== undefined;
  const isNumber = type === 'integer' || type === 'number' || type === 'boolean';
  if (node.const !== undefined || (!isNumber && !(isJudged && type !== 'object' && type !== 'array'))) return;
  const judgement: z.core.JSONSchema.BaseSchema = {};
  for (const key of Object.keys(node)) {
    if (SAID_OF_THE_KEY.has(key)) continue;
    judgement[key] = node[key];
    Reflect.deleteProperty(node, key);
  }
  node.anyOf = [judgement, REFERENCE];
}

/** What stays beside the alternatives instead of inside of one. */
const SAID_OF_THE_KEY: ReadonlySet<string> = new Set([
  'description',
  'default',
  'examples',
  'deprecated',
  'common',
]);
