// The data API as a Swagger 2.0 document, in the form that tools for PostgREST read: `definitions` with notes on keys,
// and one parameter for each column. Pure, like openapi.ts.
import type { Column, Relation, Routine, RoutineArg } from '../catalog/catalog.ts';
import { groupBy } from '../lib/group-by.ts';
import type { Json, Schema } from '../lib/openapi.ts';
import { requiredArguments, type OpenApiInput, type RelationRights } from './openapi.ts';

export function swagger({ title, description, serverUrl, relations, routines }: OpenApiInput): Schema {
  const url = URL.canParse(serverUrl) ? new URL(serverUrl) : undefined;
  const shown = new Set(relations.map(({ relation }) => relation.name));
  const paths: Record<string, Json> = { '/': ROOT_PATH };
  for (const rights of relations) paths[`/${rights.relation.name}`] = relationPath(rights);
  for (const [name, overloads] of groupBy(routines, (routine) => routine.name))
    paths[`/rpc/${name}`] = routinePath(name, overloads);
  return {
    swagger: '2.0',
    info: { title, description: description ?? '', version: '1' },
    ...(url ? { host: url.host, schemes: [url.protocol.slice(0, -1)] } : { schemes: ['http', 'https'] }),
    basePath: url?.pathname ?? serverUrl,
    consumes: FORMATS,
    produces: FORMATS,
    securityDefinitions: {
      apikey: { type: 'apiKey', name: 'apikey', in: 'header' },
      JWT: { type: 'apiKey', name: 'Authorization', in: 'header', description: 'Bearer and an access token' },
    },
    security: [{ apikey: [] }, { apikey: [], JWT: [] }],
    paths,
    definitions: Object.fromEntries(
      relations.map((rights) => [rights.relation.name, definition(rights, shown)]),
    ),
    parameters: Object.assign({}, PARAMETERS, ...relations.map(relationParameters)) as Schema,
    externalDocs: { description: 'OpenAPI 3.1 of all APIs', url: `${url?.origin ?? ''}/openapi.json` },
  };
}

const JSON_FORMATS = [
  'application/json',
  'application/vnd.pgrst.object+json;nulls=stripped',
  'application/vnd.pgrst.object+json',
];
const FORMATS = [...JSON_FORMATS, 'text/csv'];

const ROOT_PATH: Schema = {
  get: {
    tags: ['Introspection'],
    summary: 'OpenAPI description (this document)',
    produces: ['application/openapi+json', 'application/json'],
    responses: { '200': { description: 'OK' } },
  },
};

const RETURN = ['return=representation', 'return=minimal', 'return=none'];
const COUNT = ['count=none', 'count=exact', 'count=planned', 'count=estimated'];

function optional(name: string, place: 'header' | 'query', description: string, more: Schema = {}): Schema {
  return { name, description, required: false, in: place, type: 'string', ...more };
}

const PARAMETERS: Schema = {
  preferParams: optional('Prefer', 'header', 'Preference', { enum: ['params=single-object'] }),
  preferReturn: optional('Prefer', 'header', 'Preference', { enum: RETURN }),
  preferCount: optional('Prefer', 'header', 'Preference', { enum: COUNT }),
  preferPost: optional('Prefer', 'header', 'Preference', {
    enum: [...RETURN, 'resolution=ignore-duplicates', 'resolution=merge-duplicates'],
  }),
  select: optional('select', 'query', 'Filtering Columns'),
  on_conflict: optional('on_conflict', 'query', 'On Conflict'),
  order: optional('order', 'query', 'Ordering'),
  range: optional('Range', 'header', 'Limiting and Pagination'),
  rangeUnit: optional('Range-Unit', 'header', 'Limiting and Pagination', { default: 'items' }),
  offset: optional('offset', 'query', 'Limiting and Pagination'),
  limit: optional('limit', 'query', 'Limiting and Pagination'),
};

const parameter = (name: string): Schema => ({ $ref: `#/parameters/${name}` });

function relationParameters({ relation: { name, columns } }: RelationRights): Schema {
  const filters = columns.map((column): [string, Json] => [
    `rowFilter.${name}.${column.name}`,
    {
      name: column.name,
      ...(column.comment === null ? {} : { description: column.comment }),
      required: false,
      format: columnFormat(column),
      in: 'query',
      type: 'string',
    },
  ]);
  const body = {
    name,
    description: name,
    required: false,
    in: 'body',
    schema: { $ref: `#/definitions/${name}` },
  };
  return { [`body.${name}`]: body, ...Object.fromEntries(filters) };
}

/** The first line of a comment is the summary. */
function describeComment(comment: string | null | undefined): Schema {
  const [summary = '', ...rest] = (comment ?? '').split('\n');
  const description = rest.join('\n').replace(/^\n+/, '');
  return { ...(summary === '' ? {} : { summary }), ...(description === '' ? {} : { description }) };
}

function relationPath({ relation, ...may }: RelationRights): Schema {
  const { name, comment, columns, insertable, updatable, deletable } = relation;
  const filters = columns.map((column) => parameter(`rowFilter.${name}.${column.name}`));
  const body = parameter(`body.${name}`);
  const operation = (parameters: readonly Json[], responses: Schema): Schema => ({
    tags: [name],
    ...describeComment(comment),
    parameters,
    responses,
  });
  const named = (...names: string[]): Schema[] => names.map(parameter);
  const rows = { type: 'array', items: { $ref: `#/definitions/${name}` } };
  const page = named('select', 'order', 'range', 'rangeUnit', 'offset', 'limit', 'preferCount');
  const done: Schema = { '204': { description: 'No Content' } };
  const path: Record<string, Json> = {};
  if (may.select)
    path['get'] = operation([...filters, ...page], {
      '200': { description: 'OK', schema: rows },
      '206': { description: 'Partial Content' },
    });
  if (may.insert && insertable)
    path['post'] = operation([body, ...named('select', 'preferPost')], { '201': { description: 'Created' } });
  if (may.delete && deletable) path['delete'] = operation([...filters, parameter('preferReturn')], done);
  if (may.update && updatable) path['patch'] = operation([...filters, body, parameter('preferReturn')], done);
  return path;
}

function definition({ relation, rules }: RelationRights, shown: ReadonlySet<string>): Schema {
  const required = relation.columns.filter(({ notNull }) => notNull).map(({ name }) => name);
  return {
    type: 'object',
    ...(relation.comment === null ? {} : { description: relation.comment }),
    ...(required.length === 0 ? {} : { required }),
    properties: Object.fromEntries(
      relation.columns.map((column) => {
        const labels = rules.get(column.name)?.enum;
        const type = typeSchema(column.type, column);
        const values =
          column.category === 'A'
            ? undefined
            : (column.enumLabels ?? (type['type'] === 'string' ? labels : undefined));
        return [
          column.name,
          {
            ...type,
            ...columnNotes(relation, column, shown),
            ...(values ? { enum: values } : {}),
            ...columnDefault(column, type),
          },
        ];
      }),
    ),
  };
}

/** Tools find keys by these marks. */
function columnNotes(relation: Relation, { name, comment }: Column, shown: ReadonlySet<string>): Schema {
  const key = relation.foreignKeys.find(
    ({ columns, targetSchema, targetName }) =>
      columns.length === 1 &&
      columns[0] === name &&
      targetSchema === relation.schema &&
      shown.has(targetName),
  );
  const target = { table: key?.targetName ?? '', column: key?.targetColumns[0] ?? '' };
  const notes = [
    ...(relation.primaryKey.includes(name) ? ['This is a Primary Key.<pk/>'] : []),
    ...(key
      ? [
          `This is a Foreign Key to \`${target.table}.${target.column}\`.<fk table='${target.table}' ` +
            `column='${target.column}'/>`,
        ]
      : []),
  ];
  const parts = [
    ...(comment === null ? [] : [comment]),
    ...(notes.length === 0 ? [] : [`Note:\n${notes.join('\n')}`]),
  ];
  return parts.length === 0 ? {} : { description: parts.join('\n\n') };
}

/** `'open'::text` is the text `open`; of what is not a text only JSON counts, so that no call is taken for a value. */
function columnDefault(column: Column, { type }: Schema): Schema {
  if (column.default === null || column.generated !== null) return {};
  if (type === 'string') {
    const suffix = `::${columnFormat(column).replace(/^public\./, '')}`;
    const text = column.default.replace(/::[\w. "]+$/, (cast) =>
      cast.replace(/^::public\./, '::') === suffix ? '' : cast,
    );
    return { default: text === column.default ? text : text.replaceAll(/^'+|'+$/g, '') };
  }
  return /^(?:true|false|-?\d+(?:\.\d+)?)$/.test(column.default)
    ? { default: JSON.parse(column.default) as Json }
    : {};
}

function routinePath(name: string, overloads: readonly [Routine, ...Routine[]]): Schema {
  const comment = overloads.find((overload) => overload.comment !== null)?.comment;
  const operation = (parameters: readonly Json[]): Schema => ({
    tags: [`(rpc) ${name}`],
    ...describeComment(comment),
    produces: JSON_FORMATS,
    ...(parameters.length === 0 ? {} : { parameters }),
    responses: { '200': { description: 'OK' } },
  });
  const isRequired = (among: readonly Routine[], arg: string): boolean =>
    among.every(
      (overload) =>
        overload.args.some((a) => a.name === arg && a.variadic) || requiredArguments(overload).includes(arg),
    );
  const mergeArguments = (among: readonly Routine[]): RoutineArg[] => [
    ...new Map(among.flatMap(({ args }) => args.map((arg) => [arg.name, arg] as const))).values(),
  ];
  const readable = overloads.filter(
    ({ volatility, args }) => volatility !== 'volatile' && args.every((arg) => arg.name !== ''),
  );
  const all = mergeArguments(overloads);
  const whole = all.length === 1 && all[0]?.name === '' ? all[0] : undefined;
  const required = all.map((arg) => arg.name).filter((arg) => isRequired(overloads, arg));
  const body: Schema = whole
    ? typeSchema(whole.type)
    : {
        type: 'object',
        ...(comment ? { description: comment } : {}),
        ...(required.length === 0 ? {} : { required }),
        ...(all.length === 0
          ? {}
          : { properties: Object.fromEntries(all.map((arg) => [arg.name, typeSchema(arg.type)])) }),
      };
  return {
    ...(readable.length === 0
      ? {}
      : {
          get: operation(
            mergeArguments(readable).map((arg) => queryArgument(arg, isRequired(readable, arg.name))),
          ),
        }),
    post: operation([{ name: 'args', in: 'body', required: true, schema: body }, parameter('preferParams')]),
  };
}

function queryArgument({ name, type, variadic }: RoutineArg, required: boolean): Schema {
  const { type: kind = 'string', format = '' } = typeSchema(type);
  const place = { name, in: 'query', required };
  if (variadic) {
    const item = plain(type).slice(0, -2);
    const element = { ...itemSchema(item), format: item };
    return { ...place, type: 'array', items: element, collectionFormat: 'multi' };
  }
  return { ...place, type: kind === 'array' ? 'string' : kind, format };
}

const KINDS: Readonly<Record<string, string>> = {
  boolean: 'boolean',
  smallint: 'integer',
  integer: 'integer',
  bigint: 'integer',
  numeric: 'number',
  real: 'number',
  'double precision': 'number',
};

/** A type as it is printed; what is neither JSON nor a number, a truth value or a list is a string. */
function typeSchema(printed: string, column?: Column): Schema {
  const format = column ? columnFormat(column) : plain(printed);
  if (format.endsWith('[]')) return { type: 'array', format, items: itemSchema(format.slice(0, -2)) };
  if (format === 'json' || format === 'jsonb') return { format };
  const length = /^character(?: varying)?\((\d+)\)$/.exec(printed)?.[1];
  return {
    type: KINDS[format] ?? 'string',
    format,
    ...(length === undefined ? {} : { maxLength: Number(length) }),
  };
}

function itemSchema(format: string): Schema {
  return format === 'json' || format === 'jsonb' ? {} : { type: KINDS[format] ?? 'string' };
}

/** Types with labels are of a schema, which the catalog leaves out where it is `public`. */
function columnFormat({ type, enumLabels }: Column): string {
  const format = plain(type);
  return enumLabels !== null && !format.includes('.') ? `public.${format}` : format;
}

/** Removes the modifier: `character varying(20)` becomes `character varying`. */
function plain(type: string): string {
  return type.replace(/\([^)]*\)/, '');
}
