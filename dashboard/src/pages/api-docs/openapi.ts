// Reads the OpenAPI document of the data API into the structure of this page.
type Schema = {
  type?: string | string[];
  format?: string;
  enum?: Array<string | null>;
  description?: string;
  readOnly?: boolean;
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  $ref?: string;
};
type Operation = {
  requestBody?: { content: Record<string, { schema: Schema }> };
  responses?: Record<string, { content?: Record<string, { schema: Schema }> }>;
};
type Path = { description?: string } & Partial<Record<'get' | 'post' | 'patch' | 'delete', Operation>>;

export type OpenApiDocument = {
  servers: Array<{ url: string }>;
  paths: Record<string, Path>;
  components: { schemas: Record<string, Schema> };
};

export type DocColumn = {
  name: string;
  type: string;
  required: boolean;
  readOnly: boolean;
  description: string;
  enumLabels: readonly string[];
};

export type DocTable = {
  kind: 'table';
  name: string;
  description: string;
  columns: readonly DocColumn[];
  operations: ReadonlyArray<'get' | 'post' | 'patch' | 'delete'>;
};

export type DocFunction = {
  kind: 'function';
  name: string;
  description: string;
  args: readonly DocColumn[];
  returns: string;
  /** True if the function changes nothing, so that GET can call it. */
  isReadOnly: boolean;
};

export type Docs = {
  /** `…/rest/v1` */
  restUrl: string;
  tables: readonly DocTable[];
  functions: readonly DocFunction[];
};

const OPERATIONS = ['get', 'post', 'patch', 'delete'] as const;

export function readDocs(document: OpenApiDocument): Docs {
  const paths = Object.entries(document.paths);
  return {
    restUrl: document.servers[0]?.url ?? '',
    tables: paths.flatMap(([path, item]) =>
      path.startsWith('/rpc/') || path === '/'
        ? []
        : [toTable(decodeURIComponent(path.slice(1)), item, document)],
    ),
    functions: paths.flatMap(([path, item]) =>
      path.startsWith('/rpc/') ? [toFunction(decodeURIComponent(path.slice(5)), item)] : [],
    ),
  };
}

function toTable(name: string, path: Path, { components }: OpenApiDocument): DocTable {
  return {
    kind: 'table',
    name,
    description: path.description ?? '',
    // Schema names contain only letters, digits, `-` and `_`.
    columns: toColumns(components.schemas[name.replaceAll(/[^\w-]/g, '_')] ?? {}),
    operations: OPERATIONS.filter((operation) => path[operation] !== undefined),
  };
}

function toFunction(name: string, path: Path): DocFunction {
  const body = path.post?.requestBody?.content['application/json']?.schema ?? {};
  const answer = path.post?.responses?.['200']?.content?.['application/json']?.schema;
  return {
    kind: 'function',
    name,
    description: path.description ?? '',
    args: toColumns(body),
    returns: answer === undefined ? 'nothing' : typeName(answer),
    isReadOnly: path.get !== undefined,
  };
}

function toColumns({ properties = {}, required = [] }: Schema): DocColumn[] {
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    type: typeName(schema),
    required: required.includes(name),
    readOnly: schema.readOnly === true,
    description: schema.description ?? '',
    enumLabels: (schema.enum ?? []).filter((label) => label !== null),
  }));
}

function typeName(schema: Schema): string {
  if (schema.$ref !== undefined) return schema.$ref.slice(schema.$ref.lastIndexOf('/') + 1);
  if (schema.items) return `${typeName(schema.items)}[]`;
  const type = Array.isArray(schema.type)
    ? schema.type.filter((name) => name !== 'null').join(' or ')
    : schema.type;
  if (type === undefined) return 'any JSON';
  return schema.format === undefined ? type : schema.format;
}

/** Returns a value of the column's type for examples. */
export function exampleValue(column: DocColumn): unknown {
  if (column.enumLabels.length > 0) return column.enumLabels[0];
  if (column.type.endsWith('[]')) return [];
  switch (column.type) {
    case 'integer':
    case 'int32':
    case 'int64':
      return 1;
    case 'number':
    case 'float':
    case 'double':
      return 1.5;
    case 'boolean':
      return true;
    case 'uuid':
      return '00000000-0000-4000-8000-000000000000';
    case 'date':
      return '2030-01-31';
    case 'date-time':
      return '2030-01-31T12:00:00Z';
    case 'any JSON':
      return {};
    default:
      return 'text';
  }
}
