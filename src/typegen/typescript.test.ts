import { expect, test } from 'vitest';
import type { Catalog, Column, Relation, Routine } from '../catalog/catalog.ts';
import { loadConfig } from '../config/load.ts';
import { renderTypes } from './typescript.ts';

const column = (name: string, baseType: string, more: Partial<Column> = {}): Column => ({
  name,
  type: baseType,
  baseType,
  category: baseType === 'text' ? 'S' : 'N',
  notNull: false,
  default: null,
  generated: null,
  enumLabels: null,
  comment: null,
  ...more,
});

const todos: Relation = {
  schema: 'public',
  name: 'todos',
  kind: 'table',
  comment: null,
  columns: [
    column('id', 'int8', { notNull: true, default: `nextval('todos_id_seq'::regclass)` }),
    column('title', 'text', { notNull: true }),
    column('state', 'text'),
    column('tags', '_text'),
    column('meta', 'jsonb'),
    column('parent', 'int8'),
    column('retired one', 'text'),
  ],
  primaryKey: ['id'],
  uniqueKeys: [['id'], ['parent']],
  foreignKeys: [
    {
      constraint: 'todos_parent_fkey',
      columns: ['parent'],
      targetSchema: 'public',
      targetName: 'todos',
      targetColumns: ['id'],
    },
  ],
  insertable: true,
  updatable: true,
  deletable: true,
  rowSecurity: true,
  origins: {},
  estimatedRows: 0,
};

function search(name: string, type: string, baseType: string): Routine {
  return {
    schema: 'public',
    name: 'search',
    comment: null,
    volatility: 'volatile',
    args: [{ name, type, baseType, hasDefault: false, variadic: false, relation: null }],
    returns: { kind: 'scalar', type: 'integer', baseType: 'int4' },
    isSetOf: false,
    isSingleRow: false,
  };
}

const catalog: Catalog = {
  schemas: ['public'],
  serverVersion: 180_000,
  hasExtensions: false,
  usedSettings: new Set(),
  relations: new Map([['public.todos', todos]]),
  routines: new Map<string, Routine[]>([
    [
      'public.search',
      [
        {
          schema: 'public',
          name: 'search',
          comment: null,
          volatility: 'stable',
          args: [
            {
              name: 'words',
              type: 'text',
              baseType: 'text',
              hasDefault: false,
              variadic: false,
              relation: null,
            },
            {
              name: 'max',
              type: 'integer',
              baseType: 'int4',
              hasDefault: true,
              variadic: false,
              relation: null,
            },
          ],
          returns: { kind: 'composite', type: 'todos', relation: 'public.todos' },
          isSetOf: true,
          isSingleRow: false,
        },
        search('most', 'integer', 'int4'),
        search('', 'uuid', 'uuid'),
      ],
    ],
  ]),
};

const FILE = `version: 1
tables:
  todos:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: title, type: text, required: true }
      - { name: state, type: text, enum: [open, done] }
      - { name: tags, type: 'text[]' }
      - { name: meta, type: jsonb }
      - { name: parent, unique: true, foreign_key: { references: todos.id } }
    rls: []
rpc:
  search:
    args: [{ name: words, type: text, required: true }, { name: max, type: integer, default: 5 }]
    returns: { type: setof todos }
    language: sql
    body: select * from todos
  search_all:
    name: search
    args: [{ name: most, type: int4, required: true }]
    returns: { type: integer }
    language: sql
    body: select 1
  search_inside:
    name: search
    expose: false
    args: [{ type: uuid, required: true }]
    returns: { type: integer }
    language: sql
    body: select 1
`;

test('tables, relationships and functions, and nothing that left the file', () => {
  const loaded = loadConfig({ name: 'svc.yaml', directory: undefined, text: FILE }, { variables: {} });
  if (!loaded.ok) throw new Error('the file is not valid');
  expect(renderTypes({ config: loaded.config, catalog })).toMatchInlineSnapshot(`
    "// Made by \`svc types\`. Do not edit: it is written again when the schema changes.

    export type Json = string | number | boolean | null | { [key: string]: Json | undefined } | Json[];

    export type Database = {
      public: {
        Tables: {
          todos: {
            Row: {
              id: number;
              title: string;
              state: "open" | "done" | null;
              tags: string[] | null;
              meta: Json | null;
              parent: number | null;
            };
            Insert: {
              id?: number;
              title: string;
              state?: "open" | "done" | null;
              tags?: string[] | null;
              meta?: Json | null;
              parent?: number | null;
            };
            Update: {
              id?: number;
              title?: string;
              state?: "open" | "done" | null;
              tags?: string[] | null;
              meta?: Json | null;
              parent?: number | null;
            };
            Relationships: [
              {
                foreignKeyName: "todos_parent_fkey";
                columns: ["parent"];
                isOneToOne: true;
                referencedRelation: "todos";
                referencedColumns: ["id"];
              },
            ];
          };
        };
        Views: { [_ in never]: never };
        Functions: {
          search: {
            Args: { words: string; max?: number };
            Returns: Database["public"]['Tables']["todos"]['Row'][];
          } | {
            Args: { most: number };
            Returns: number;
          };
        };
        Enums: { [_ in never]: never };
        CompositeTypes: { [_ in never]: never };
      };
    };

    type PublicSchema = Database['public'];

    export type Tables<Name extends keyof (PublicSchema['Tables'] & PublicSchema['Views'])> = (PublicSchema['Tables'] &
      PublicSchema['Views'])[Name]['Row'];
    export type TablesInsert<Name extends keyof PublicSchema['Tables']> = PublicSchema['Tables'][Name]['Insert'];
    export type TablesUpdate<Name extends keyof PublicSchema['Tables']> = PublicSchema['Tables'][Name]['Update'];
    export type Enums<Name extends keyof PublicSchema['Enums']> = PublicSchema['Enums'][Name];
    "
  `);
});

test('views have rows, writable columns and relationships', () => {
  const view: Relation = {
    ...todos,
    name: 'open_todos',
    kind: 'view',
    columns: [
      column('key', 'int8'),
      column('state', 'text', { enumLabels: ['open', 'done'] }),
      column('up', 'int8'),
    ],
    primaryKey: [],
    uniqueKeys: [],
    foreignKeys: [],
    deletable: false,
    origins: {
      key: { schema: 'public', name: 'todos', column: 'id' },
      up: { schema: 'public', name: 'todos', column: 'parent' },
    },
  };
  const text = `${FILE}views:\n  open_todos: { query: select 1 }\n  hidden: { query: select 1, expose: false }\n`;
  const loaded = loadConfig({ name: 'svc.yaml', directory: undefined, text }, { variables: {} });
  if (!loaded.ok) throw new Error('the file is not valid');
  const relations = new Map([
    ...catalog.relations,
    ['public.open_todos', view],
    ['public.hidden', { ...view, name: 'hidden' }],
  ]);
  const types = renderTypes({ config: loaded.config, catalog: { ...catalog, relations } });
  expect(types.slice(types.indexOf('    Views:'), types.indexOf('    Functions:'))).toMatchInlineSnapshot(`
    "    Views: {
          open_todos: {
            Row: {
              key: number | null;
              state: "open" | "done" | null;
              up: number | null;
            };
            Insert: {
              key?: number | null;
              state?: "open" | "done" | null;
              up?: number | null;
            };
            Update: {
              key?: number | null;
              state?: "open" | "done" | null;
              up?: number | null;
            };
            Relationships: [
              {
                foreignKeyName: "todos_parent_fkey";
                columns: ["up"];
                isOneToOne: true;
                referencedRelation: "todos";
                referencedColumns: ["id"];
              },
            ];
          };
        };
    "
  `);
});

test.each(['always', 'stored'] as const)('a column that is generated %s cannot be written', (generated) => {
  const loaded = loadConfig({ name: 'svc.yaml', directory: undefined, text: FILE }, { variables: {} });
  if (!loaded.ok) throw new Error('the file is not valid');
  const columns = todos.columns.map((column) =>
    column.name === 'parent' ? { ...column, generated } : column,
  );
  const relations = new Map([['public.todos', { ...todos, columns }]]);
  const types = renderTypes({ config: loaded.config, catalog: { ...catalog, relations } });
  expect(types.match(/^ +parent.*$/gm)?.map((line) => line.trim())).toEqual([
    'parent: number | null;',
    'parent?: never;',
    'parent?: never;',
  ]);
});
