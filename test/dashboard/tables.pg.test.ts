// GET /dashboard/api/tables and /sql-functions: which parts of the schema they show, and which they never show.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { SqlFunctionList, TableInfo, TableList } from '../../src/dashboard-api/contract.ts';
import { sqlFunctionRoutes } from '../../src/dashboard-api/routes/sql-functions.ts';
import { visibleRelations } from '../../src/dashboard-api/visible-relations.ts';
import { tablesRoutes } from '../../src/dashboard-api/routes/tables.ts';
import { must } from '../../src/lib/assert.ts';
import { raw } from '../../src/postgres/sql.ts';
import { startRoutesWorld, type RoutesWorld } from '../support/dashboard/dashboard-routes-world.ts';

const YAML = `
version: 1
expose:
  relations: [reporting.totals]
  functions: [add_up]
tables:
  lists:
    rls: false
    fields:
      - { name: id, type: bigint, primary_key: true }
      - { name: title, type: text, required: true, unique: true }
  todos:
    fields:
      - { name: id, type: uuid, primary_key: true, default: uuid_v7() }
      - { name: list_id, foreign_key: { references: lists.id } }
      - { name: tags, type: "text[]" }
      - { name: state, type: text, required: true, default: open, enum: [open, done] }
    indexes:
      - columns: [state]
    rls:
      - operations: [select]
        using: state = 'open'
      - name: never_old
        type: restrictive
        operations: [delete]
        using: "false"
rpc:
  count_open:
    args:
      - { name: wanted, type: text, required: true }
      - { name: at_most, type: integer, default: 5 }
    language: sql
    returns: { type: bigint }
    body: select count(*) from todos where state = wanted and state <> '\${SVC_API_KEY}' limit at_most
`;

let world: RoutesWorld;
let tables: TableInfo[];

beforeAll(async () => {
  world = await startRoutesWorld({
    yaml: YAML,
    env: { SVC_API_KEY: 'canary-api-key' },
    routes: [tablesRoutes, sqlFunctionRoutes],
    before: `
      create schema reporting;
      create table reporting.secret_base (id int primary key, amount int);
      create view reporting.totals as select id, amount from reporting.secret_base;
      create function add_up(a int, b point) returns table (total int, label text) language sql stable
        as 'select a, ''x''';`,
  });
  await world.owner.query(raw(`insert into lists select n, 'list ' || n from generate_series(1, 2000) n`));
  await world.owner.query(raw('analyze lists'));
  tables = ((await world.call('GET', '/tables')).json as TableList).tables;
});
afterAll(async () => await world.close());

const table = (name: string): TableInfo => {
  const found = tables.find((relation) => relation.name === name);
  if (!found) throw new Error(`no table ${name}`);
  return found;
};

test('declared and exposed relations are listed, and no others', () => {
  expect(tables.map(({ schema, name, managed }) => [schema, name, managed])).toEqual([
    ['public', 'lists', true],
    ['public', 'todos', true],
    ['reporting', 'totals', false],
  ]);
  expect(table('totals')).toMatchObject({ kind: 'view', primaryKey: ['id'], rowSecurity: false });
});

test('columns, keys, indexes and sizes match the database', () => {
  expect(table('todos').columns).toMatchObject([
    { name: 'id', type: 'uuid', notNull: true },
    { name: 'list_id', type: 'bigint', category: 'N' },
    { name: 'tags', type: 'text[]', category: 'A', notNull: false, enumLabels: null },
    // `enum:` in the file is a check constraint; its values are listed as well.
    { name: 'state', type: 'text', category: 'S', enumLabels: ['open', 'done'] },
  ]);
  expect(table('todos').foreignKeys).toMatchObject([
    { columns: ['list_id'], target: { schema: 'public', table: 'lists', columns: ['id'] } },
  ]);
  expect(table('todos').indexes).toHaveLength(2);
  expect(table('todos').indexes).toContainEqual(
    expect.objectContaining({ unique: false, definition: expect.stringContaining('(state)') as string }),
  );
  expect(table('lists').uniqueKeys).toContainEqual(['title']);
  expect(table('lists').estimatedRows).toBe(2000);
  expect(table('lists').totalBytes).toBeGreaterThan(2000 * 20);
  expect(table('todos').estimatedRows).toBe(-1);
  expect([table('lists').countedRows, table('todos').countedRows]).toEqual([2000, 0]);
});

test('policies are shown with their texts in the file', () => {
  expect(table('lists')).toMatchObject({ rowSecurity: false, policies: [] });
  const { rowSecurity, policies } = table('todos');
  expect(rowSecurity).toBe(true);
  expect(policies).toHaveLength(2);
  expect(policies).toContainEqual({
    name: expect.any(String) as string,
    operation: 'select',
    permissive: true,
    roles: ['anon', 'authenticated'],
    using: "state = 'open'",
    withCheck: null,
  });
  expect(policies).toContainEqual(
    expect.objectContaining({ operation: 'delete', permissive: false, using: 'false' }),
  );
});

test('a grown size and a policy created by hand appear without a reload', async () => {
  await world.owner.query(raw('create policy by_hand on todos for insert with check (true)'));
  const { tables: now } = (await world.call('GET', '/tables')).json as TableList;
  expect(now.find(({ name }) => name === 'todos')?.policies).toContainEqual({
    name: 'by_hand',
    operation: 'insert',
    permissive: true,
    roles: ['public'],
    using: null,
    withCheck: 'true',
  });
});

test('declared and exposed SQL functions have their arguments', async () => {
  const { functions } = (await world.call('GET', '/sql-functions')).json as SqlFunctionList;
  expect(functions).toMatchObject([
    {
      name: 'count_open',
      managed: true,
      args: [
        { name: 'wanted', type: 'text', category: 'S', hasDefault: false },
        { name: 'at_most', type: 'integer', category: 'N', hasDefault: true },
      ],
      returns: 'bigint',
      isSetOf: false,
      sql: expect.stringContaining("state <> '${SVC_API_KEY}'") as string,
    },
    {
      name: 'add_up',
      managed: false,
      args: [{ category: 'N' }, { name: 'b', type: 'point', category: 'G' }],
      returns: 'table (total integer, label text)',
      isSetOf: true,
      volatility: 'stable',
      authRequired: false,
      sql: null,
    },
  ]);
});

test('the tables of svc are never shown, even if they are exposed', () => {
  const snapshot = world.context.snapshot();
  const forged = {
    ...snapshot,
    config: {
      ...snapshot.config,
      expose: { relations: [{ schema: 'auth', name: 'users' }], routines: [] },
    },
    catalog: {
      ...snapshot.catalog,
      relations: new Map([
        ...snapshot.catalog.relations,
        [
          'auth.users',
          {
            ...must(snapshot.catalog.relations.get('public.lists'), 'the relation lists'),
            schema: 'auth',
            name: 'users',
          },
        ],
      ]),
    },
  };
  expect(visibleRelations(forged).map(({ name }) => name)).toEqual(['lists', 'todos']);
});
