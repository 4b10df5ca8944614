// GET and HEAD of the root: Swagger 2.0, or OpenAPI 3.1 on demand, limited to the objects that this caller can use.
// Privileges are queried as the caller.
import { qualifiedKey } from '../../catalog/catalog.ts';
import type { Default, Field } from '../../config/config.ts';
import type { FeatureContext } from '../../http/feature.ts';
import type { Caller } from '../../identity/caller.ts';
import type { Schema } from '../../lib/openapi.ts';
import { quoteIdent } from '../../postgres/sql.ts';
import { type ColumnRules, openApi, type OpenApiInput, type RelationRights } from '../openapi.ts';
import { exposed, type Exposed } from '../plan/exposed.ts';
import type { ExposedRelation, ExposedRoutine } from '../plan/relation.ts';
import { contentType, negotiate, type MediaType } from '../request/media-type.ts';
import { EVERYTHING } from '../request/page.ts';
import { FIELD } from '../request/query.ts';
import { qualifiedName } from '../sql/names.ts';
import { swagger } from '../swagger.ts';
import type { Action, Plan } from './action.ts';

const OPENAPI: MediaType = { kind: 'openapi', version: '2.0' };

const RIGHTS = `SELECT
  (SELECT json_object_agg(name, json_build_array(
     has_any_column_privilege(id, 'SELECT'), has_any_column_privilege(id, 'INSERT'),
     has_any_column_privilege(id, 'UPDATE'), has_table_privilege(id, 'DELETE')))
   FROM (SELECT name, to_regclass(name)::oid AS id FROM unnest($1::text[]) AS name) AS r WHERE id IS NOT NULL),
  (SELECT json_agg(json_build_array(p.proname, array(
     SELECT coalesce(p.proargnames[a.n], '') FROM unnest(coalesce(p.proallargtypes, p.proargtypes::oid[]))
       WITH ORDINALITY AS a (type, n)
     WHERE coalesce(p.proargmodes[a.n], 'i') IN ('i', 'b', 'v') ORDER BY a.n))) FROM pg_catalog.pg_proc p
   WHERE p.pronamespace = $2::regnamespace AND p.proname = ANY ($3::text[])
     AND has_function_privilege(p.oid, 'EXECUTE'))`;

type Subjects = {
  readonly relations: readonly ExposedRelation[];
  readonly routines: readonly ExposedRoutine[];
  /** Schema and name of each relation as SQL. */
  readonly names: readonly string[];
  readonly schema: string;
};

export const DESCRIBE: Action<Plan & Subjects> = {
  page: () => EVERYTHING,

  plan({ request, exposed: all }) {
    const { schema } = request;
    const media = negotiate(request.accept, ({ kind }) => kind === 'openapi' || kind === 'json', OPENAPI);
    return { media, isReadOnly: true, ...subjectsIn(all, schema) };
  },

  sql: () => ({ statement: { text: RIGHTS, slots: [FIELD, FIELD - 1, FIELD - 2], columns: [] } }),

  fields: rightsAsked,

  answer({ context }, plan, { results }) {
    const { media } = plan;
    const described = toInput(context, plan, results[0]?.rows[0] ?? []);
    const isNewer = media.kind === 'openapi' && media.version === '3.1';
    return {
      status: 200,
      contentType: contentType(media),
      body: JSON.stringify(isNewer ? openApi(described) : swagger(described)),
    };
  },
};

/** Returns the schema without a document around it, for embedding in a larger one. */
export async function describeData(context: FeatureContext, caller: Caller): Promise<Schema> {
  const subjects = subjectsIn(exposed(context.snapshot()), 'public');
  const statement = { text: RIGHTS, values: rightsAsked(subjects) };
  const [result] = await context.callers.run(caller, [statement], { readOnly: true });
  return openApi(toInput(context, subjects, result?.rows[0] ?? []));
}

/** Returns all described objects, regardless of the caller's privileges. */
function subjectsIn(all: Exposed, schema: string): Subjects {
  const relations = [...all.relations.values()].filter((candidate) => candidate.schema === schema);
  const routines = [...all.routines.values()].flat().filter((candidate) => candidate.schema === schema);
  return { relations, routines, names: relations.map(qualifiedName), schema };
}

function rightsAsked({ names, schema, routines }: Subjects): string[] {
  return [arrayText(names), quoteIdent(schema), arrayText(routines.map((routine) => routine.name))];
}

/** `row`: the result of RIGHTS. */
function toInput(
  { snapshot, baseUrl }: Pick<FeatureContext, 'snapshot' | 'baseUrl'>,
  { relations, routines, names }: Subjects,
  [rights, callable]: ReadonlyArray<Buffer | null | undefined>,
): OpenApiInput {
  const mayUse = toRights(rights);
  const mayCall = toSignatures(callable);
  const { project, tables } = snapshot().config;
  const fields = new Map(tables.map((table) => [qualifiedKey(table), table.fields]));
  return {
    title: project.name ?? 'Data API',
    description: project.description,
    serverUrl: `${baseUrl() ?? ''}/rest/v1`,
    relations: relations.flatMap((relation, index): RelationRights[] => {
      const rightsOf = mayUse.get(names[index] ?? '') ?? [];
      if (!rightsOf.includes(true)) return [];
      const isAllowed = (at: number): boolean => rightsOf[at] === true;
      const rules = new Map(
        (fields.get(qualifiedKey(relation)) ?? []).map((field) => [field.name, columnRules(field)]),
      );
      return [
        {
          relation,
          rules,
          select: isAllowed(0),
          insert: isAllowed(1),
          update: isAllowed(2),
          delete: isAllowed(3),
        },
      ];
    }),
    routines: routines.filter(({ name, args }) =>
      mayCall.has(JSON.stringify([name, args.map((arg) => arg.name)])),
    ),
  };
}

function columnRules({ enum: values, min, max, pattern, default: given }: Field): ColumnRules {
  return { enum: values, min, max, pattern, default: given?.kind === 'scalar' ? literal(given) : undefined };
}

/** Calls such as `now()` are omitted, because they are written like texts. */
function literal({ text, type }: Extract<Default, { kind: 'scalar' }>): ColumnRules['default'] {
  if (type === 'number') return Number(text);
  if (type === 'boolean') return text === 'true';
  return /\(\)$|^current_/.test(text) ? undefined : text;
}

function arrayText(names: readonly string[]): string {
  return `{${names.map((name) => `"${name.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`).join(',')}}`;
}

function toRights(json: Buffer | null | undefined): ReadonlyMap<string, readonly unknown[]> {
  const value: unknown = json ? JSON.parse(json.toString('utf8')) : {};
  if (typeof value !== 'object' || value === null) return new Map();
  return new Map(
    Object.entries(value).map(([name, list]: [string, unknown]) => [name, Array.isArray(list) ? list : []]),
  );
}

/** Reads pairs of a function's name and its argument names, as JSON. */
function toSignatures(json: Buffer | null | undefined): ReadonlySet<string> {
  const value: unknown = json ? JSON.parse(json.toString('utf8')) : [];
  return new Set(Array.isArray(value) ? value.map((entry) => JSON.stringify(entry)) : []);
}
