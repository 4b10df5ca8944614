import { expect, test } from 'vitest';
import type { Catalog, Column, Relation } from './catalog.ts';
import { withKeys } from './view-keys.ts';

const column = (name: string): Column => ({
  name,
  type: 'bigint',
  baseType: 'int8',
  category: 'N',
  notNull: true,
  default: null,
  generated: null,
  enumLabels: null,
  comment: null,
});

const NOTES: Relation = {
  schema: 'public',
  name: 'notes',
  kind: 'table',
  comment: null,
  columns: [column('id'), column('parent')],
  primaryKey: ['id'],
  uniqueKeys: [['id']],
  foreignKeys: [
    {
      constraint: 'notes_parent_fkey',
      columns: ['parent'],
      targetSchema: 'public',
      targetName: 'notes',
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

test('a column that a view shows twice keeps its keys under its first name', () => {
  const names = { key: 'id', again: 'id', up: 'parent', also: 'parent' };
  const view: Relation = {
    ...NOTES,
    name: 'twice',
    kind: 'view',
    columns: Object.keys(names).map(column),
    primaryKey: [],
    uniqueKeys: [],
    foreignKeys: [],
    origins: Object.fromEntries(
      Object.entries(names).map(([name, from]) => [name, { schema: 'public', name: 'notes', column: from }]),
    ),
  };
  const catalog: Catalog = {
    schemas: ['public'],
    serverVersion: 180_000,
    hasExtensions: false,
    usedSettings: new Set(),
    relations: new Map([
      ['public.notes', NOTES],
      ['public.twice', view],
    ]),
    routines: new Map(),
  };
  expect(withKeys(view, catalog)).toMatchObject({
    primaryKey: ['key'],
    uniqueKeys: [['key']],
    foreignKeys: [{ constraint: 'notes_parent_fkey', columns: ['up'] }],
  });
});
