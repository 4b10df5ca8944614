// Describes the data API in OpenAPI 3.1, limited to the objects that the caller can use. Pure: privileges are queried
// elsewhere.
import { groupBy } from '../lib/group-by.ts';
import type { Column, Relation, Routine, RoutineResult } from '../catalog/catalog.ts';
import type { Json, Schema } from '../lib/openapi.ts';

export type RelationRights = {
  readonly relation: Relation;
  readonly select: boolean;
  readonly insert: boolean;
  readonly update: boolean;
  readonly delete: boolean;
  /** Rules of the columns in the file, in addition to their types. */
  readonly rules: ReadonlyMap<string, ColumnRules>;
};

export type ColumnRules = {
  readonly enum?: readonly string[] | undefined;
  readonly min?: string | undefined;
  readonly max?: string | undefined;
  readonly pattern?: string | undefined;
  /** Default of the column if it is a constant. */
  readonly default?: string | number | boolean | undefined;
};

export type OpenApiInput = {
  readonly title: string;
  readonly description: string | undefined;
  /** URL of the API itself, `…/rest/v1`. */
  readonly serverUrl: string;
  readonly relations: readonly RelationRights[];
  readonly routines: readonly Routine[];
};

export function openApi(input: OpenApiInput): Schema {
  const paths: Record<string, Json> = {};
  const schemas: Record<string, Json> = {};
  for (const rights of input.relations) {
    const { name } = rights.relation;
    schemas[schemaName(name)] = relationSchema(rights);
    paths[`/${encodeURIComponent(name)}`] = relationPath(rights);
  }
  for (const [name, overloads] of groupBy(input.routines, (routine) => routine.name))
    paths[`/rpc/${encodeURIComponent(name)}`] = routinePath(overloads, schemas);
  return {
    openapi: '3.1.0',
    info: { title: input.title, description: input.description ?? '', version: '1' },
    servers: [{ url: input.serverUrl }],
    security: [{ apikey: [] }, { apikey: [], bearer: [] }],
    paths,
    components: {
      securitySchemes: {
        apikey: { type: 'apiKey', in: 'header', name: 'apikey' },
        bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
      },
      parameters: PARAMETERS,
      responses: {
        error: { description: 'An error', content: json({ $ref: `#/components/schemas/${ERROR}` }) },
      },
      schemas: { ...schemas, [ERROR]: ERROR_SCHEMA },
    },
  };
}

/** A name that no table's schema has. */
const ERROR = 'svc.error';

/** The specification allows letters, digits, `.`, `-` and `_`. */
const schemaName = (name: string): string => name.replaceAll(/[^\w-]/g, '_');

const ERROR_SCHEMA: Schema = {
  type: 'object',
  properties: {
    code: { type: 'string' },
    message: { type: 'string' },
    details: { type: ['string', 'array', 'null'] },
    hint: { type: ['string', 'null'] },
  },
  required: ['code', 'message', 'details', 'hint'],
};

const text: Schema = { type: 'string' };
const number: Schema = { type: 'integer', minimum: 0 };
const PARAMETERS: Schema = Object.fromEntries(
  (
    [
      ['select', 'query', text, 'Columns, embeds and aggregates: id,title,author:users(name)'],
      ['order', 'query', text, 'column.asc|desc.nullsfirst|nullslast, comma separated'],
      ['limit', 'query', number, 'Most rows; lists have 20 when neither limit nor Range is sent.'],
      ['offset', 'query', number, 'Rows to skip.'],
      ['or', 'query', text, '(column.operator.value,and(…),…)'],
      ['on_conflict', 'query', text, 'Columns of the unique key that an upsert looks at'],
      ['Prefer', 'header', text, 'return, count, resolution, missing, max-affected, tx, timezone'],
      ['Range', 'header', text, 'Rows, from zero and inclusive: 0-9'],
    ] as const
  ).map(([name, place, schema, description]) => [
    name.toLowerCase(),
    { name, in: place, description, schema },
  ]),
);

const OWN_PARAMETERS: ReadonlySet<string> = new Set(Object.keys(PARAMETERS));

const parameter = (name: string): Schema => ({ $ref: `#/components/parameters/${name}` });
const json = (schema: Schema): Schema => ({ 'application/json': { schema } });
const FAILED: Schema = { $ref: '#/components/responses/error' };

function relationPath({ relation, ...may }: RelationRights): Schema {
  const { name, comment, insertable, updatable, deletable } = relation;
  const row: Schema = { $ref: `#/components/schemas/${schemaName(name)}` };
  const rows: Schema = { type: 'array', items: row };
  // Columns with the name of a reserved parameter are left out; they can be filtered with `or`.
  const filters = relation.columns
    .filter(({ name: column }) => !OWN_PARAMETERS.has(column))
    .map((column) => ({
      name: column.name,
      in: 'query',
      description: `operator.value, for example eq.1 (${column.type})`,
      schema: { type: 'string' },
    }));
  const body: Schema = { requestBody: { content: json({ oneOf: [row, rows] }) } };
  const shown: Schema = { description: 'With return=representation', content: json(rows) };
  const operation = (parameters: readonly Json[], responses: Schema, rest: Schema = {}): Schema => ({
    tags: [name],
    parameters,
    ...rest,
    responses: { ...responses, default: FAILED },
  });
  const named = (...names: string[]): Schema[] => names.map(parameter);
  const path: Record<string, Json> = {};
  if (comment) path['description'] = comment;
  if (may.select) {
    path['get'] = operation(
      [...named('select', 'order', 'limit', 'offset', 'or', 'prefer', 'range'), ...filters],
      {
        '200': { description: 'Rows', content: json(rows) },
        '206': { description: 'Some of the rows', content: json(rows) },
      },
    );
  }
  if (may.insert && insertable) {
    path['post'] = operation(named('select', 'on_conflict', 'prefer'), { '201': shown }, body);
  }
  const chosen = [...named('select', 'or', 'prefer'), ...filters];
  if (may.update && updatable) {
    path['patch'] = operation(chosen, { '200': shown, '204': { description: 'Changed' } }, body);
  }
  if (may.delete && deletable) {
    path['delete'] = operation(chosen, { '200': shown, '204': { description: 'Deleted' } });
  }
  return path;
}

/** Describes all functions of one name. The passed arguments select one of them. */
function routinePath(
  overloads: readonly [Routine, ...Routine[]],
  schemas: Readonly<Record<string, Json>>,
): Schema {
  const tags = ['functions'];
  const comments = overloads.flatMap(({ comment }) => comment ?? []);
  const isVoid = ({ returns, isSetOf }: Routine): boolean => returns.kind === 'void' && !isSetOf;
  const results = overloads
    .filter((overload) => !isVoid(overload))
    .map((overload) => resultSchema(overload, schemas));
  const responses: Schema = {
    ...(results.length > 0 ? { '200': { description: 'Result', content: json(alternatives(results)) } } : {}),
    ...(overloads.some(isVoid) ? { '204': { description: 'Done' } } : {}),
    default: FAILED,
  };
  const post: Schema = {
    tags,
    parameters: [parameter('prefer')],
    requestBody: { content: json(alternatives(overloads.map(argumentsSchema))) },
    responses,
  };
  const readable = overloads.filter(({ volatility }) => volatility !== 'volatile');
  const args = new Map(readable.flatMap((overload) => overload.args.map((arg) => [arg.name, arg] as const)));
  const get: Schema = {
    tags,
    parameters: [...args.values()].map(({ name, baseType }) => ({
      name,
      in: 'query',
      required: readable.every((overload) => requiredArguments(overload).includes(name)),
      schema: typeSchema(baseType),
    })),
    responses,
  };
  return {
    ...(comments.length > 0 ? { description: comments.join('\n\n') } : {}),
    post,
    ...(readable.length === 0 ? {} : { get }),
  };
}

export function requiredArguments({ args }: Routine): string[] {
  return args.filter((arg) => !arg.hasDefault && !arg.variadic).map((arg) => arg.name);
}

function argumentsSchema(routine: Routine): Schema {
  const properties = Object.fromEntries(routine.args.map((arg) => [arg.name, typeSchema(arg.baseType)]));
  return { type: 'object', properties, required: requiredArguments(routine), additionalProperties: false };
}

function alternatives(schemas: readonly Schema[]): Schema {
  const [only, ...more] = schemas;
  return only && more.length === 0 ? only : { oneOf: schemas };
}

function resultSchema(routine: Routine, schemas: Readonly<Record<string, Json>>): Schema {
  const item = itemSchema(routine.returns, schemas);
  return routine.isSetOf ? { type: 'array', items: item } : item;
}

function itemSchema(returns: RoutineResult, schemas: Readonly<Record<string, Json>>): Schema {
  switch (returns.kind) {
    case 'scalar':
      return typeSchema(returns.baseType);
    case 'composite': {
      const name = returns.relation?.slice(returns.relation.indexOf('.') + 1) ?? '';
      return schemaName(name) in schemas
        ? { $ref: `#/components/schemas/${schemaName(name)}` }
        : { type: 'object' };
    }
    case 'columns':
      return {
        type: 'object',
        properties: Object.fromEntries(returns.columns.map(({ name, type }) => [name, typeSchema(type)])),
      };
    case 'record':
      return { type: 'object' };
    case 'void':
      return { type: 'null' };
  }
}

function relationSchema({ relation, rules }: Pick<RelationRights, 'relation' | 'rules'>): Schema {
  const required = relation.columns
    .filter((column) => column.notNull && column.default === null && column.generated === null)
    .map((column) => column.name);
  return {
    type: 'object',
    ...(relation.comment ? { description: relation.comment } : {}),
    properties: Object.fromEntries(
      relation.columns.map((column) => [
        column.name,
        columnSchema(relation, column, rules.get(column.name) ?? {}),
      ]),
    ),
    required,
  };
}

function columnSchema(relation: Relation, column: Column, rules: ColumnRules): Schema {
  const key = relation.foreignKeys.find(
    (foreignKey) => foreignKey.columns.length === 1 && foreignKey.columns[0] === column.name,
  );
  const notes = [
    column.comment,
    relation.primaryKey.includes(column.name) ? 'Primary key.' : null,
    key ? `References ${key.targetName}.${key.targetColumns.join(', ')}.` : null,
  ].filter((note) => note !== null);
  const label = { type: 'string', enum: column.enumLabels ?? [] };
  const schema =
    column.enumLabels === null
      ? typeSchema(column.baseType)
      : column.category === 'A'
        ? { type: 'array', items: label }
        : label;
  return {
    ...orNull({ ...schema, ...limits(schema, column, rules) }, !column.notNull),
    ...(rules.default === undefined ? {} : { default: rules.default }),
    ...(notes.length > 0 ? { description: notes.join(' ') } : {}),
    ...(column.generated === 'always' || column.generated === 'stored' ? { readOnly: true } : {}),
  };
}

function limits(schema: Schema, { type }: Column, rules: ColumnRules): Schema {
  const [, length] = /^character(?: varying)?\((\d+)\)$/.exec(type) ?? [];
  const isNumber = schema['type'] === 'integer' || schema['type'] === 'number';
  // Omits limits that JSON numbers would round.
  const exact = (digits: string | undefined): number | undefined =>
    isNumber && digits !== undefined && String(Number(digits)) === digits ? Number(digits) : undefined;
  const found: Readonly<Record<string, Json | undefined>> = {
    enum: isNumber ? numbers(rules.enum, exact) : schema['type'] === 'string' ? rules.enum : undefined,
    minimum: exact(rules.min),
    maximum: exact(rules.max),
    maxLength: length === undefined ? undefined : Number(length),
    pattern: schema['type'] === 'string' && isOrdinary(rules.pattern) ? rules.pattern : undefined,
  };
  return Object.fromEntries(
    Object.entries(found).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])),
  );
}

/** Converts all values or none, because a shorter list would reject valid values. */
function numbers(
  texts: readonly string[] | undefined,
  exact: (digits: string) => number | undefined,
): number[] | undefined {
  const found = texts?.flatMap((text) => exact(text) ?? []);
  return found?.length === texts?.length ? found : undefined;
}

/** Whether the pattern means the same outside PostgreSQL. */
function isOrdinary(pattern: string | undefined): boolean {
  return pattern !== undefined && !/\[\[[:.=]|\\[mMyYAZ<>]|^\*\*\*|^\(\?[a-z]/.test(pattern);
}

/** A schema without a type accepts every value, including null. */
function orNull(schema: Schema, nullable: boolean): Schema {
  const { type, enum: values } = schema;
  if (!nullable || typeof type !== 'string') return schema;
  return { ...schema, type: [type, 'null'], ...(Array.isArray(values) ? { enum: [...values, null] } : {}) };
}

/** Maps a type by its name in the catalog or its printed form. */
function typeSchema(type: string): Schema {
  if (type.startsWith('_')) return { type: 'array', items: typeSchema(type.slice(1)) };
  if (type.endsWith('[]')) return { type: 'array', items: typeSchema(type.slice(0, -2)) };
  return TYPES[type] ?? { type: 'string', format: type };
}

const INTEGER: Schema = { type: 'integer' };
const TYPES: Readonly<Record<string, Schema>> = {
  int2: INTEGER,
  int4: { type: 'integer', format: 'int32' },
  integer: { type: 'integer', format: 'int32' },
  int8: { type: 'integer', format: 'int64' },
  bigint: { type: 'integer', format: 'int64' },
  smallint: INTEGER,
  numeric: { type: 'number' },
  float4: { type: 'number', format: 'float' },
  float8: { type: 'number', format: 'double' },
  'double precision': { type: 'number', format: 'double' },
  real: { type: 'number', format: 'float' },
  bool: { type: 'boolean' },
  boolean: { type: 'boolean' },
  text: { type: 'string' },
  varchar: { type: 'string' },
  bpchar: { type: 'string' },
  uuid: { type: 'string', format: 'uuid' },
  date: { type: 'string', format: 'date' },
  timestamptz: { type: 'string', format: 'date-time' },
  timestamp: { type: 'string' },
  json: {},
  jsonb: {},
};
