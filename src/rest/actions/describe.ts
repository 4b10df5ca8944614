// GET and HEAD of the root: the OpenAPI document of what this caller may use, asked of the database as the caller.
import { runStatements, type Exchange } from '../exchange.ts';
import { openApi } from '../openapi.ts';
import { contentType, negotiate, type MediaType } from '../request/media-type.ts';
import { respond } from '../respond/respond.ts';

const OPENAPI: MediaType = { kind: 'openapi' };

const RIGHTS = `SELECT
  (SELECT json_object_agg(name, json_build_array(
     has_any_column_privilege(id, 'SELECT'), has_any_column_privilege(id, 'INSERT'),
     has_any_column_privilege(id, 'UPDATE'), has_table_privilege(id, 'DELETE')))
   FROM (SELECT name, to_regclass(name)::oid AS id FROM unnest($1::text[]) AS name) AS r WHERE id IS NOT NULL),
  (SELECT json_agg(p.proname) FROM pg_catalog.pg_proc p
   WHERE p.pronamespace = $2::regnamespace AND p.proname = ANY ($3::text[]) AND has_function_privilege(p.oid, 'EXECUTE'))`;

export async function describe(exchange: Exchange): Promise<void> {
  const { request, exposed, context, reply } = exchange;
  const media = negotiate(request.accept, ({ kind }) => kind === 'openapi' || kind === 'json', OPENAPI);
  const relations = [...exposed.relations.values()].filter((one) => one.schema === request.schema);
  const routines = [...exposed.routines.values()].filter((one) => one.schema === request.schema);
  const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;
  const names = relations.map(({ schema, name }) => `${quoted(schema)}.${quoted(name)}`);
  const [result] = await runStatements(
    exchange,
    [{ text: RIGHTS, slots: [0, 1, 2] }],
    {
      values: [arrayText(names), quoted(request.schema), arrayText(routines.map((routine) => routine.name))],
    },
    { readOnly: true },
  );
  const [rights, callable] = result?.rows[0] ?? [];
  const mayUse = toRights(rights);
  const mayCall = new Set(toNames(callable));
  const { project } = context.snapshot().config;
  const document = openApi({
    title: project.name ?? 'Data API',
    description: project.description,
    serverUrl: `${context.baseUrl() ?? ''}/rest/v1`,
    relations: relations.flatMap((relation, index) => {
      const [select, insert, update, remove] = mayUse.get(names[index] ?? '') ?? [];
      if (!select && !insert && !update && !remove) return [];
      return [
        {
          relation,
          select: select === true,
          insert: insert === true,
          update: update === true,
          delete: remove === true,
        },
      ];
    }),
    routines: routines.filter((routine) => mayCall.has(routine.name)),
  });
  return respond(
    reply,
    request,
    {
      status: 200,
      contentType: contentType(media.kind === 'json' ? media : OPENAPI),
      body: JSON.stringify(document),
    },
    undefined,
  );
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
