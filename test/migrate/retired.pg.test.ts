// Tests that retired objects do not block changes of the functions and keys that they use, and keys that move while
// their column changes its type.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(async () => {
  await world.empty();
});

const SIZES = [
  ['a small table', {}],
  ['a large table', { maxWriteBlockMs: 0 }],
] as const;

const table = (name: string, ...fields: string[]): string =>
  `  ${name}:\n    fields:\n${fields.map((field) => `      - { ${field} }\n`).join('')}`;

describe.each(SIZES)('a key on %s', (_size, policy) => {
  const things = (id: string, code: string): string =>
    `tables:\n${table('things', `name: id, ${id}`, `name: code, ${code}`)}    rls: []\n`;
  const BEFORE = things('type: integer, primary_key: true', 'type: text, required: true');

  test.each([
    ['bigint', ''],
    ['text', ', required: true'],
    ['smallint', ', unique: true'],
  ])('moves off a column that becomes %s%s', async (type, more) => {
    await world.settle(BEFORE);
    await world.sql(`insert into things select n, 'c' || n from generate_series(1, 20) n`);
    await world.settle(things(`type: ${type}${more}`, 'type: text, primary_key: true'), policy);
    expect(
      await world.sql(
        `select pg_get_constraintdef(oid) as key from pg_constraint where conrelid = 'things'::regclass
          and contype = 'p'`,
      ),
    ).toEqual([{ key: 'PRIMARY KEY (code)' }]);
    expect(
      await world.sql(`select count(*)::int as rows from things where id::text = substr(code, 2)`),
    ).toEqual([{ rows: 20 }]);
  });

  const refers = (id: string, code: string, ...more: string[]): string => {
    const parts = `${table('parts', 'name: id, type: integer, primary_key: true', ...more)}    rls: []\n`;
    return `${things(id, code)}${more.length === 0 ? '' : parts}`;
  };
  const BOTH = refers(
    'type: integer, primary_key: true',
    'type: text, required: true',
    'name: thing, foreign_key: { references: things.id }',
  );

  test.each([
    ['moves', 'type: integer', 'type: text, primary_key: true'],
    ['changes its type', 'type: bigint, primary_key: true', 'type: text'],
  ])('%s while the references to it are retired, now or before', async (_name, id, code) => {
    for (const gone of [refers(id, code), refers(id, code, 'name: other, type: text')]) {
      await world.settle(BOTH);
      await world.sql(`insert into things values (1, 'a'); insert into parts values (1, 1)`);
      await world.settle(gone, policy);
      await world.settle(BOTH);
      expect(await world.sql('select thing from parts')).toEqual([{ thing: 1 }]);
      await world.settle(
        gone.replace(id, 'type: integer, primary_key: true').replace(code, 'type: text, required: true'),
        policy,
      );
      await world.settle(gone, policy);
      await world.sql('drop table things, parts; truncate svc_meta.object, svc_meta.stamp');
    }
  });
});

describe.each(SIZES)('a function that retired objects of %s use', (_size, policy) => {
  const kept = 'name: id, type: integer, primary_key: true';
  const calls = [
    'name: x, type: integer, check: f(x)',
    'name: y, type: boolean, required: true, default: { sql: f(1) }',
  ];
  const rpc = (type: string): string =>
    `rpc:\n  f: { language: sql, volatility: immutable, args: [{ name: a, type: ${type} }], ` +
    'returns: { type: boolean }, body: select a > 0 }\n';
  const using =
    `tables:\n${table('kept', kept, ...calls)}    rls: []\n` +
    `${table('gone', kept, ...calls)}    indexes: [{ columns: [id], where: f(id) }]\n` +
    '    rls: [{ operations: [select], using: f(id) }]\n';
  const unused = `tables:\n${table('kept', kept)}    rls: []\n`;

  test.each([
    ['before', [`${using}${rpc('integer')}`, `${unused}${rpc('integer')}`]],
    ['in the same file', [`${using}${rpc('integer')}`]],
  ])('is dropped when they are retired %s', async (_when, first) => {
    for (const file of first) await world.settle(file, policy);
    await world.sql(`insert into kept (id) values (1)`);
    await world.settle(unused, policy);
    expect(await world.sql(`select from pg_proc where proname = 'f'`)).toEqual([]);
    await world.sql(`insert into kept (id) values (2)`);
    await world.sql(`update kept set y = true`);
    await world.settle(`${using}${rpc('bigint')}`, policy);
    expect((await world.plan(`${using}${rpc('bigint')}`)).unmanaged).toEqual([]);
    expect(await world.sql('select y from kept')).toEqual([{ y: true }, { y: true }]);
  });

  test.each([
    ['before', [`${using}${rpc('integer')}`, `${unused}${rpc('integer')}`]],
    ['in the same file', [`${using}${rpc('integer')}`]],
  ])('changes its argument when they are retired %s', async (_when, first) => {
    for (const file of first) await world.settle(file, policy);
    await world.settle(`${unused}${rpc('bigint')}`, policy);
    await world.settle(`${using}${rpc('bigint')}`, policy);
    expect((await world.plan(`${using}${rpc('bigint')}`)).unmanaged).toEqual([]);
  });
});

test('a policy of a retired table does not block a type change of a column that it reads', async () => {
  const id = 'name: id, type: integer, primary_key: true';
  const notes = (type: string): string =>
    `tables:\n${table('notes', id, `name: size, type: ${type}`)}    rls: []\n`;
  const isUsed = '"exists (select from notes where size > 0)"';
  const reads = `${table('gone', id)}    rls: [{ operations: [select], using: ${isUsed} }]\n`;
  for (const [, policy] of SIZES) {
    await world.settle(`${notes('integer')}${reads}`);
    await world.settle(notes('integer'), policy);
    await world.settle(notes('bigint'), policy);
    await world.settle(`${notes('bigint')}${reads}`, policy);
    await world.settle(notes('text'), policy);
    await world.sql('drop table notes, gone; truncate svc_meta.object, svc_meta.stamp');
  }
});

test('a partial index that was built again under a new name is dropped with its column', async () => {
  const file = (fields: string, more = ''): string =>
    `tables:\n${table('notes', 'name: id, type: integer, primary_key: true', fields)}${more}    rls: []\n`;
  const index = (column: string): string => `    indexes: [{ columns: [id, ${column}], where: id > 0 }]\n`;
  await world.settle(file('name: text, type: text', index('text')));
  const renamed = 'name: body, renamed_from: text, type: varchar(40)';
  await world.settle(file(renamed, index('body')));
  await world.settle(file('name: other, type: text'));
  expect(await world.sql(`select indexname from pg_indexes where tablename = 'notes'`)).toEqual([
    { indexname: 'notes_pkey' },
  ]);
});
