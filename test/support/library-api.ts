// A small library schema as the data API would expose it, without a database, for unit tests of plans and SQL.
//
//   teams ← authors ⇐ books (author and editor), books ↔ tags through book_tags,
//   nodes with a parent, a view and functions.
import { groupBy } from '../../src/lib/group-by.ts';
import { NO_ALTERNATIVE_NAMES } from '../../src/rest/plan/alternative-names.ts';
import type { Catalog, Column, ForeignKey, Relation, Routine } from '../../src/catalog/catalog.ts';
import { findRelationships } from '../../src/rest/plan/find-relationships.ts';
import type { Exposed } from '../../src/rest/plan/exposed.ts';
import type { ExposedRelation, ExposedRoutine } from '../../src/rest/plan/relation.ts';

function table(
  name: string,
  columns: string,
  {
    key = 'id',
    references = {},
    ...rest
  }: {
    readonly key?: string;
    /** Column to table; the column it points to is `id`. */
    readonly references?: Readonly<Record<string, string>>;
    readonly kind?: Relation['kind'];
    readonly rowSecurity?: boolean;
    readonly hidden?: readonly string[];
    readonly origins?: Relation['origins'];
  } = {},
): ExposedRelation {
  const list = columns.split(' ').map(column);
  const primaryKey = key.split(' ').filter(Boolean);
  return {
    schema: 'public',
    name,
    kind: 'table',
    comment: null,
    columns: list,
    primaryKey,
    uniqueKeys: primaryKey.length > 0 ? [primaryKey] : [],
    foreignKeys: Object.entries(references).map(([from, target]) => foreignKey(name, from, target)),
    insertable: true,
    updatable: true,
    deletable: true,
    rowSecurity: false,
    origins: {},
    estimatedRows: 1_000,
    ...rest,
    column: new Map(list.map((column) => [column.name, column])),
    hidden: new Set(rest.hidden),
    alternatives: NO_ALTERNATIVE_NAMES,
  };
}

/** `name:type`, optionally followed by `=default`. */
function column(text: string): Column {
  const [name = '', type = '', fallback] = text.split(/[:=]/);
  return {
    name,
    type: type === 'int4' ? 'integer' : type,
    baseType: type,
    category: 'U',
    notNull: false,
    default: fallback ?? null,
    generated: null,
    enumLabels: null,
    comment: null,
  };
}

function foreignKey(table: string, from: string, target: string): ForeignKey {
  return {
    constraint: `${table}_${from}_fkey`,
    columns: [from],
    targetSchema: 'public',
    targetName: target,
    targetColumns: ['id'],
  };
}

function routine(name: string, rest: Partial<ExposedRoutine>): ExposedRoutine {
  return {
    schema: 'public',
    name,
    comment: null,
    volatility: 'stable',
    args: [],
    returns: { kind: 'void' },
    isSetOf: false,
    isSingleRow: false,
    authRequired: false,
    alternatives: { routine: [], args: new Map() },
    ...rest,
  };
}

function argument(text: string): Routine['args'][number] {
  const [name = '', type = '', option] = text.split(':');
  return {
    name,
    type: type === 'int4' ? 'integer' : type,
    baseType: type.endsWith('[]') ? `_${type.slice(0, -2)}` : type,
    hasDefault: option === 'default',
    variadic: option === 'variadic',
    relation: type === 'books' ? 'public.books' : null,
  };
}

const RELATIONS: readonly ExposedRelation[] = [
  table('teams', 'id:int4 name:text'),
  table('authors', 'id:int4 name:text team_id:int4', { references: { team_id: 'teams' }, hidden: ['email'] }),
  table(
    'books',
    'id:int4 title:text price:numeric born:date notes:jsonb words:tsvector author_id:int4 editor_id:int4',
    {
      references: { author_id: 'authors', editor_id: 'authors' },
      rowSecurity: true,
    },
  ),
  table('tags', 'id:int4 label:text'),
  table('book_tags', 'book_id:int4 tag_id:int4', {
    key: 'book_id tag_id',
    references: { book_id: 'books', tag_id: 'tags' },
  }),
  table('nodes', 'id:int4 parent_id:int4', { references: { parent_id: 'nodes' } }),
  table('loans', 'id:int4=identity due:date=now() returned:bool=false', {}),
  table('titles', 'id:int4 title:text', { key: '', kind: 'view' }),
];

const BOOKS = { kind: 'composite', type: 'books', relation: 'public.books' } as const;

const ROUTINES: readonly ExposedRoutine[] = [
  routine('add', {
    args: ['a:int4', 'b:int4:default'].map(argument),
    returns: { kind: 'scalar', type: 'integer', baseType: 'int4' },
  }),
  routine('join_words', {
    args: ['words:text[]:variadic'].map(argument),
    returns: { kind: 'scalar', type: 'text', baseType: 'text' },
  }),
  routine('store', { args: ['doc:jsonb', 'at:timestamptz:default'].map(argument), volatility: 'volatile' }),
  routine('cheap_books', { args: ['most:numeric'].map(argument), returns: BOOKS, isSetOf: true }),
  routine('counts', {
    returns: {
      kind: 'columns',
      columns: [
        { name: 'label', type: 'text', baseType: 'text' },
        { name: 'n', type: 'bigint', baseType: 'int8' },
      ],
    },
    isSetOf: true,
  }),
  routine('similar', { args: ['book:books'].map(argument), returns: BOOKS, isSetOf: true }),
];

function byKey<T extends { readonly schema: string; readonly name: string }>(
  all: readonly T[],
): Map<string, T> {
  return new Map(all.map((relation) => [`${relation.schema}.${relation.name}`, relation]));
}

function expose(): Exposed {
  const relations = byKey(RELATIONS);
  const routines = groupBy(ROUTINES, ({ schema, name }) => `${schema}.${name}`);
  const catalog: Catalog = {
    schemas: ['public'],
    relations,
    routines,
    serverVersion: 180_000,
    hasExtensions: false,
    usedSettings: new Set(),
  };
  return {
    schemas: ['public'],
    relations,
    routines,
    alternatives: { relations: new Map(), routines: new Map() },
    relationships: findRelationships(relations, [...routines.values()].flat(), catalog),
    catalog,
    usesResponseSettings: false,
    version: 1,
  };
}

export const LIBRARY: Exposed = expose();
