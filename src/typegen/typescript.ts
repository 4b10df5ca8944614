// TypeScript types of the backend in the shape supabase-js takes: `createClient<Database>(…)`. Made from the catalog,
// limited to what the file declares: nothing retired is in them.
import { qualifiedKey, type Catalog, type Column, type Relation, type Routine } from '../catalog/catalog.ts';
import { withKeys } from '../catalog/view-keys.ts';
import type { Config, Field, SqlFunction, Table, View } from '../config/config.ts';
import { withArguments } from '../config/schema/overloads.ts';
import { groupBy } from '../lib/group-by.ts';

type Declared = Pick<Config, 'types' | 'tables' | 'views' | 'rpc'>;

export function renderTypes({ config, catalog }: { config: Declared; catalog: Catalog }): string {
  const bodies = typedSchemas(config).map((schema) => renderSchema(schema, config, catalog));
  return [HEAD, `export type Database = {\n${bodies.join('\n')}\n};`, TAIL].join('\n\n') + '\n';
}

/** Schemas of what the types are about, `public` first. */
export function typedSchemas({
  types,
  tables,
  views,
  rpc,
}: Pick<Declared, 'types' | 'tables' | 'views' | 'rpc'>): string[] {
  const served = rpc.filter(({ expose }) => expose);
  return [...new Set(['public', ...[...types, ...tables, ...views, ...served].map(({ schema }) => schema)])];
}

const HEAD = `// Made by \`svc types\`. Do not edit: it is written again when the schema changes.

export type Json = string | number | boolean | null | { [key: string]: Json | undefined } | Json[];`;

const TAIL = `type PublicSchema = Database['public'];

export type Tables<Name extends keyof (PublicSchema['Tables'] & PublicSchema['Views'])> = (PublicSchema['Tables'] &
  PublicSchema['Views'])[Name]['Row'];
export type TablesInsert<Name extends keyof PublicSchema['Tables']> = PublicSchema['Tables'][Name]['Insert'];
export type TablesUpdate<Name extends keyof PublicSchema['Tables']> = PublicSchema['Tables'][Name]['Update'];
export type Enums<Name extends keyof PublicSchema['Enums']> = PublicSchema['Enums'][Name];`;

const NOTHING = '{ [_ in never]: never }';

function renderSchema(schema: string, config: Declared, catalog: Catalog): string {
  const tables = config.tables
    .filter((table) => table.schema === schema)
    .flatMap((table) => renderTable(table, config, catalog));
  const views = config.views
    .filter((view) => view.schema === schema && view.expose)
    .flatMap((view) => renderView(view, config, catalog));
  const functions = [
    ...groupBy(
      config.rpc.filter((fn) => fn.schema === schema),
      ({ name }) => name,
    ),
  ].flatMap(([name, overloads]) => renderFunction(name, overloads, config, catalog));
  const enums = config.types
    .filter((type) => type.schema === schema)
    .flatMap(({ name, values }) => (values ? [`      ${key(name)}: ${renderUnion(values)};`] : []));
  return [
    `  ${key(schema)}: {`,
    member('Tables', tables),
    member('Views', views),
    member('Functions', functions),
    member('Enums', enums),
    `    CompositeTypes: ${NOTHING};`,
    '  };',
  ].join('\n');
}

function member(name: string, entries: readonly string[]): string {
  return entries.length === 0 ? `    ${name}: ${NOTHING};` : `    ${name}: {\n${entries.join('\n')}\n    };`;
}

function renderTable(table: Table, config: Declared, catalog: Catalog): string[] {
  const relation = catalog.relations.get(qualifiedKey(table));
  if (!relation) return [];
  const columns = table.fields.flatMap((field) => {
    const column = relation.columns.find((candidate) => candidate.name === field.name);
    return column ? [{ field, column }] : [];
  });
  const row = columns.map(({ field, column }) => rowLine(column, field));
  const insert = columns.map(({ field, column }) =>
    writeLine(column, field, !column.notNull || column.default !== null),
  );
  const update = columns.map(({ field, column }) => writeLine(column, field, true));
  return [
    [
      `      ${key(table.name)}: {`,
      `        Row: {\n${row.join('\n')}\n        };`,
      `        Insert: {\n${insert.join('\n')}\n        };`,
      `        Update: {\n${update.join('\n')}\n        };`,
      `        Relationships: ${renderRelationships(new Set(table.fields.map(({ name }) => name)), relation, config)};`,
      '      };',
    ].join('\n'),
  ];
}

/** PostgreSQL does not record whether a column of a view can be null. */
function renderView(view: View, config: Declared, catalog: Catalog): string[] {
  const found = catalog.relations.get(qualifiedKey(view));
  if (!found) return [];
  const relation = withKeys(found, catalog);
  const { columns, insertable, updatable } = relation;
  const lines = (mark: string): string =>
    columns.map((column) => `          ${key(column.name)}${mark}: ${columnType(column)} | null;`).join('\n');
  const shown = new Set(columns.map(({ name }) => name));
  return [
    [
      `      ${key(view.name)}: {`,
      `        Row: {\n${lines('')}\n        };`,
      ...(insertable ? [`        Insert: {\n${lines('?')}\n        };`] : []),
      ...(updatable ? [`        Update: {\n${lines('?')}\n        };`] : []),
      `        Relationships: ${renderRelationships(shown, relation, config)};`,
      '      };',
    ].join('\n'),
  ];
}

function writeLine(column: Column, field: Field, optional: boolean): string {
  if (column.generated === 'always' || column.generated === 'stored')
    return `          ${key(column.name)}?: never;`;
  return rowLine(column, field, optional ? '?' : '');
}

function rowLine(column: Column, field: Field, mark = ''): string {
  return `          ${key(column.name)}${mark}: ${valueType(column, field)}${column.notNull ? '' : ' | null'};`;
}

function valueType(column: Column, field: Field): string {
  if (field.enum && field.enum.length > 0) {
    const union = renderUnion(field.enum);
    if (column.category === 'S') return union;
    if (column.baseType === '_text' || column.baseType === '_varchar') return `(${union})[]`;
  }
  return columnType(column);
}

function columnType({ enumLabels, baseType, category }: Column): string {
  if (!enumLabels) return scalarType(baseType);
  const union = renderUnion(enumLabels);
  return category === 'A' ? `(${union})[]` : union;
}

function renderUnion(values: readonly string[]): string {
  return values.map((value) => JSON.stringify(value)).join(' | ');
}

const NUMBERS = new Set(['int2', 'int4', 'int8', 'float4', 'float8', 'numeric', 'oid']);

/** The type in an answer's JSON: all but numbers, booleans and JSON are text. */
function scalarType(base: string): string {
  if (base.startsWith('_')) return `${scalarType(base.slice(1))}[]`;
  if (NUMBERS.has(base)) return 'number';
  if (base === 'bool') return 'boolean';
  if (base === 'json' || base === 'jsonb') return 'Json';
  if (base === 'void') return 'undefined';
  if (base === 'record') return 'Record<string, unknown>';
  return 'string';
}

function renderRelationships(columns: ReadonlySet<string>, relation: Relation, config: Declared): string {
  const entries = relation.foreignKeys.flatMap((foreignKey) => {
    const isDeclared =
      config.tables.some(
        ({ schema, name }) => schema === foreignKey.targetSchema && name === foreignKey.targetName,
      ) && foreignKey.columns.every((column) => columns.has(column));
    if (!isDeclared) return [];
    const oneToOne = [relation.primaryKey, ...relation.uniqueKeys].some((unique) =>
      sameSet(unique, foreignKey.columns),
    );
    return [
      [
        '          {',
        `            foreignKeyName: ${JSON.stringify(foreignKey.constraint)};`,
        `            columns: [${foreignKey.columns.map((column) => JSON.stringify(column)).join(', ')}];`,
        `            isOneToOne: ${oneToOne};`,
        `            referencedRelation: ${JSON.stringify(foreignKey.targetName)};`,
        `            referencedColumns: [${foreignKey.targetColumns.map((name) => JSON.stringify(name)).join(', ')}];`,
        '          },',
      ].join('\n'),
    ];
  });
  return entries.length === 0 ? '[]' : `[\n${entries.join('\n')}\n        ]`;
}

function sameSet(a: readonly string[], b: readonly string[]): boolean {
  return a.length > 0 && a.length === b.length && a.every((value) => b.includes(value));
}

/** Renders one of several overloads of a function. */
function renderFunction(
  name: string,
  overloads: readonly SqlFunction[],
  config: Declared,
  catalog: Catalog,
): string[] {
  const forms = overloads.flatMap((fn) => {
    const known = catalog.routines.get(qualifiedKey(fn)) ?? [];
    const isOnly = known.length === 1 && overloads.length === 1;
    const routine = isOnly ? known[0] : withArguments(known, fn.args);
    if (!routine || !fn.expose) return [];
    const args = routine.args.map((arg) => {
      const declared = fn.args.find((candidate) => candidate.name === arg.name);
      return `${key(arg.name)}${declared?.required ? '' : '?'}: ${scalarType(arg.baseType)}`;
    });
    return [
      [
        '{',
        `        Args: ${args.length === 0 ? 'never' : `{ ${args.join('; ')} }`};`,
        `        Returns: ${returnType(routine, config)};`,
        '      }',
      ].join('\n'),
    ];
  });
  return forms.length === 0 ? [] : [`      ${key(name)}: ${forms.join(' | ')};`];
}

function returnType(routine: Routine, config: Declared): string {
  const { returns } = routine;
  const many = (type: string): string =>
    routine.isSetOf ? `${/[|\s]/.test(type) ? `(${type})` : type}[]` : type;
  switch (returns.kind) {
    case 'void':
      return 'undefined';
    case 'scalar':
      return many(scalarType(returns.baseType));
    case 'record':
      return many('Record<string, unknown>');
    case 'columns':
      return many(
        `{ ${returns.columns.map((column) => `${key(column.name)}: ${scalarType(column.baseType)}`).join('; ')} }`,
      );
    case 'composite': {
      if (returns.relation === null) return many('Record<string, unknown>');
      const dot = returns.relation.indexOf('.');
      const [schema, table] = [returns.relation.slice(0, dot), returns.relation.slice(dot + 1)];
      const kind = config.views.some((view) => qualifiedKey(view) === returns.relation) ? 'Views' : 'Tables';
      return many(`Database[${JSON.stringify(schema)}]['${kind}'][${JSON.stringify(table)}]['Row']`);
    }
  }
}

function key(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
}
