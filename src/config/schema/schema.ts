// The schema of svc.yaml. Validation, defaults, the JSON Schema for editors and docs/configuration.md are derived from
// it. Rules over several keys are in check/.
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

/** The validated file: defaults are set, durations are in milliseconds, sizes in bytes. */
export type SvcFile = z.infer<typeof svcSchema>;

/** Returns the JSON Schema (draft 2020-12) of the values after substitution. */
export function describeSchema(): Record<string, unknown> {
  return z.toJSONSchema(svcSchema, { target: 'draft-2020-12', io: 'input' });
}

/** Returns the JSON Schema for editors, which accepts `${VAR}` for every value. */
export function toJsonSchema(): Record<string, unknown> {
  return withoutMarks(toMarkedJsonSchema());
}

/** Includes the marks of common keys. */
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

/** Removes the marks of common keys. A property called `common` stays, because its schema is not a boolean. */
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
  const hasConstraint = options !== undefined || pattern !== undefined;
  const isNumber = type === 'integer' || type === 'number' || type === 'boolean';
  if (node.const !== undefined || (!isNumber && !(hasConstraint && type !== 'object' && type !== 'array')))
    return;
  const constraint: z.core.JSONSchema.BaseSchema = {};
  for (const key of Object.keys(node)) {
    if (ANNOTATION_KEYS.has(key)) continue;
    constraint[key] = node[key];
    Reflect.deleteProperty(node, key);
  }
  node.anyOf = [constraint, REFERENCE];
}

/** Keywords that describe the key. They stay outside the alternatives. */
const ANNOTATION_KEYS: ReadonlySet<string> = new Set([
  'description',
  'default',
  'examples',
  'deprecated',
  'common',
]);
