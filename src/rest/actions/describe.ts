// GET and HEAD of the root: the OpenAPI document of what this caller may use. Their
// privileges are queried as the caller.
import { keyOf } from '../../catalog/catalog.ts';
import type { Default, Field } from '../../config/config.ts';
import { quoteIdent } from '../../postgres/sql.ts';
import { type ColumnRules, openApi, type RelationRights } from '../openapi.ts';
import type { ExposedRelation, ExposedRoutine } from '../plan/relation.ts';
import { contentType, negotiate, type MediaType } from '../request/media-type.ts';
import { EVERYTHING } from '../request/page.ts';
import { FIELD } from '../request/query.ts';
import { qualifiedName } from '../sql/names.ts';
import type { Action, Plan } from './action.ts';

const OPENAPI: MediaType = { kind: 'openapi' };

const RIGHTS = `SELECT
  (SELECT json_object_agg(name, json_build_array(
     has_any_column_privilege(id, 'SELECT'), has_any_column_privilege(id, 'INSERT'),
     has_any_column_privilege(id, 'UPDATE'), has_table_privilege(id, 'DELETE')))
   FROM (SELECT name, to_regclass(name)::oid AS id FROM unnest($1::text[]) AS name) AS r WHERE id IS NOT NULL),
  (SELECT json_agg(p.proname) FROM pg_catalog.pg_proc p
   WHERE p.pronamespace = $2::regnamespace AND p.proname = ANY ($3::text[]) AND has_function_privilege(p.oid, 'EXECUTE'))`;

type Description = Plan & {
  readonly relations: readonly ExposedRelation[];
  readonly routines: readonly ExposedRoutine[];
  /** Schema and name of each relation as SQL. */
  readonly names: readonly string[];
  readonly schema: string;
};

export const DESCRIBE: Action<Description> = {
  page: () => EVERYTHING,

  plan({ request, exposed }) {
    const { schema } = request;
    const media = negotiate(request.accept, ({ kind }) => kind === 'openapi' || kind === 'json', OPENAPI);
    const relations = [...exposed.relations.values()].filter((one) => one.schema === schema);
    const routines = [...exposed.routines.values()].filter((one) => one.schema === schema);
    const names = relations.map(qualifiedName);
    return { media, isReadOnly: true, relations, routines, names, schema };
  },

  sql: () => ({ statement: { text: RIGHTS, slots: [FIELD, FIELD - 1, FIELD - 2], columns: [] } }),

  fields: ({ names, schema, routines }) => [
    arrayText(names),
    quoteIdent(schema),
    arrayText(routines.map((routine) => routine.name)),
  ],

  answer({ context }, { media, relations, routines, names }, { results }) {
    const [rights, callable] = results[0]?.rows[0] ?? [];
    const mayUse = toRights(rights);
    const mayCall = new Set(toNames(callable));
    const { project, tables } = context.snapshot().config;
    const fields = new Map(tables.map((table) => [keyOf(table), table.fields]));
    const document = openApi({
      title: project.name ?? 'Data API',
      description: project.description,
      serverUrl: `${context.baseUrl() ?? ''}/rest/v1`,
      relations: relations.flatMap((relation, index): RelationRights[] => {
        const rightsOf = mayUse.get(names[index] ?? '') ?? [];
        if (!rightsOf.includes(true)) return [];
        const may = (at: number): boolean => rightsOf[at] === true;
        const rules = new Map(
          (fields.get(keyOf(relation)) ?? []).map((field) => [field.name, rulesOf(field)]),
        );
        return [{ relation, rules, select: may(0), insert: may(1), update: may(2), delete: may(3) }];
      }),
      routines: routines.filter((routine) => mayCall.has(routine.name)),
    });
    return {
      status: 200,
      contentType: contentType(media.kind === 'json' ? media : OPENAPI),
      body: JSON.stringify(document),
    };
  },
};

function rulesOf({ enum: values, min, max, pattern, default: given }: Field): ColumnRules {
  return { enum: values, min, max, pattern, default: given?.kind === 'scalar' ? literal(given) : undefined };
}

/** `now()` and the like are calls, although they are written like texts. */
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

function toNames(json: Buffer | null | undefined): string[] {
  const value: unknown = json ? JSON.parse(json.toString('utf8')) : [];
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : [];
}
