// Tests dependants of changed objects. Declared dependants are dropped and created again. Undeclared dependants stop
// the plan before any change. Dependants of a key that is built concurrently are created after it.
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

const todos = (email = 'type: text', more = 'rls: []', id = 'type: integer, primary_key: true'): string =>
  `tables:\n  todos:\n    fields:\n      - { name: id, ${id} }\n      - { name: email, ${email} }\n    ${more}\n`;

const ok = (type: string, more = ''): string => `rpc:
${more}  ok:
    language: sql
    volatility: immutable
    args: [{ name: a, type: ${type}, required: true }]
    returns: { type: boolean }
    body: select a is not null
`;

describe('the type of an argument changes', () => {
  const caller = (name: string, args: string, body: string): string =>
    `  ${name}:\n    language: sql\n    args: [${args}]\n    returns: { type: boolean }\n    body: ${body}\n`;
  const byDefault = (name: string, calls: string): string =>
    caller(name, `{ name: a, type: boolean, default: { sql: '${calls}' } }`, 'select a');

  test.each<[string, (type: string) => string]>([
    ['a check', (type) => todos(`type: text, check: 'ok(id)'`) + ok(type)],
    ['a default', (type) => todos(`type: boolean, default: { sql: ok(1) }`) + ok(type)],
    [
      'a partial index',
      (type) => todos('type: text', `indexes: [{ columns: [email], where: ok(id) }]\n    rls: []`) + ok(type),
    ],
    ['a policy', (type) => todos('type: text', `rls: [{ operations: [select], check: ok(id) }]`) + ok(type)],
    ['the default of another function', (type) => todos() + ok(type, byDefault('a_caller', 'ok(1)'))],
    [
      'a default of a default',
      (type) => todos() + ok(type, byDefault('a_caller', 'b_caller()') + byDefault('b_caller', 'ok(1)')),
    ],
    ['the body of another function', (type) => todos() + ok(type, caller('a_caller', '', 'select ok(1)'))],
    [
      'all of them',
      (type) =>
        todos(
          `type: boolean, default: { sql: ok(1) }, check: 'ok(id) and a_caller()'`,
          `indexes: [{ columns: [email], where: ok(id) }]\n    rls: [{ operations: [select], check: a_caller() }]`,
        ) +
        ok(
          type,
          byDefault('a_caller', 'ok(1)').replace('language: sql', 'language: sql\n    volatility: immutable'),
        ),
    ],
  ])('below %s', async (_name, file) => {
    await world.settle(file('integer'));
    await world.sql('insert into todos (id) values (1)');
    await world.settle(file('bigint'));
    await world.settle(file('numeric'));
    await world.settle(file('integer'));
  });

  test.each([
    ['column g of table todos', 'alter table todos add column g boolean generated always as (ok(id)) stored'],
    ['constraint by_hand on table todos', 'alter table todos add constraint by_hand check (ok(id))'],
    ['index by_hand', 'create index by_hand on todos (ok(id))'],
    ['view by_hand', 'create view by_hand as select ok(1)'],
    ['default value for column g of table todos', 'alter table todos add column g boolean default ok(1)'],
    [
      'trigger by_hand on table todos',
      `create function quiet() returns trigger language plpgsql as 'begin return new; end';
       create trigger by_hand before update on todos for each row when (ok(new.id)) execute function quiet()`,
    ],
  ])('below an undeclared dependant: %s', async (dependant, statement) => {
    await world.settle(todos() + ok('integer'));
    await world.sql(statement);
    const { problems } = await world.plan(todos() + ok('bigint'));
    const name = dependant.startsWith('column g')
      ? '(default value for )?column g of table todos'
      : dependant;
    expect(problems.map((problem) => `${problem.code} ${problem.at} ${problem.message}`)).toEqual([
      expect.stringMatching(
        new RegExp(`^MIG-304 rpc\\.ok ${name}, which is not in the file, uses what changes$`),
      ),
    ]);
  });
});

describe.each(["it's", "a 'b", 'a /* b', 'a "b', '$$'])('next to a default of %s', (value) => {
  const file = (functions: string, check = ''): string =>
    todos(`type: text, default: ${JSON.stringify(value)}`).replace(
      '    rls: []',
      `      - { name: note, type: text${check} }\n    rls: []`,
    ) + functions;
  const calls = `, check: 'OK(id)'`;

  test('a new check of an existing table can use a new function', async () => {
    await world.settle(file(''));
    await world.settle(file(ok('integer'), calls));
  });

  test('a check that uses a function with a changed argument is created again', async () => {
    await world.settle(file(ok('integer'), calls));
    await world.settle(file(ok('bigint'), calls));
  });
});

describe('the type of a column changes', () => {
  test.each([
    ['column g of table todos', 'alter table todos add column g integer generated always as (id + 1) stored'],
    [
      'trigger by_hand on table todos',
      `create function quiet() returns trigger language plpgsql as 'begin return new; end';
       create trigger by_hand before update of id on todos for each row execute function quiet()`,
    ],
    [
      'function total()',
      'create function total() returns bigint language sql begin atomic select sum(id) from todos; end',
    ],
    ['rule by_hand on table todos', 'create rule by_hand as on update to todos where new.id = 3 do nothing'],
  ])('below an undeclared dependant: %s', async (dependant, statement) => {
    await world.settle(todos());
    await world.sql(statement);
    const { problems } = await world.plan(todos('type: text', 'rls: []', 'type: bigint, primary_key: true'));
    expect(problems.map((problem) => `${problem.code} ${problem.at} ${problem.message}`)).toEqual([
      `MIG-304 tables.todos.fields.id.type ${dependant} uses id`,
    ]);
  });
});

describe('a new key of a large table and a reference to it in one file', () => {
  const LARGE = { maxWriteBlockMs: 0 };
  const others = (...fields: readonly string[]): string =>
    `  others:\n    fields:\n      - { name: id, type: integer, primary_key: true }\n` +
    `${fields.map((field) => `      - ${field}\n`).join('')}    rls: []\n`;
  const refers = '{ name: mail, foreign_key: { references: todos.email } }';
  const unique = todos('type: text, unique: true');
  const byIndex = todos('type: text', 'indexes: [{ columns: [email], unique: true }]\n    rls: []');
  const fill = async (): Promise<void> => {
    await world.sql(`insert into todos select n, 'e' || n from generate_series(1, 20) n; analyze todos`);
  };
  const references = async (): Promise<unknown> =>
    world.sql(
      `select conrelid::regclass::text as from, convalidated as valid from pg_constraint where contype = 'f'
        and confrelid = 'todos'::regclass`,
    );

  test.each([
    ['a new table', todos(), unique + others(refers)],
    ['a new column', todos() + others(), unique + others(refers)],
    ['an existing column', todos() + others('{ name: mail, type: text }'), unique + others(refers)],
    ['a new table, to a unique index', todos(), byIndex + others(refers)],
  ])('%s', async (_name, before, after) => {
    await world.settle(before);
    await fill();
    if (before.includes('others:'))
      await world.sql('insert into others (id) values (1), (2); analyze others');
    if (before.includes('name: mail')) await world.sql(`update others set mail = 'e' || id`);
    expect((await world.plan(after, LARGE)).problems).toEqual([]);
    await world.settle(after, LARGE);
    expect(await references()).toEqual([{ from: 'others', valid: true }]);
  });

  test('a new key and a reference to it on a small or new table, also with a unique index', async () => {
    await world.settle(byIndex + others(refers));
    await world.settle(todos() + others('{ name: mail, type: text }'));
    await world.settle(byIndex + others(refers));
    expect(await references()).toEqual([{ from: 'others', valid: true }]);
  });

  test('a primary key that moves to another column keeps its references', async () => {
    const file = (key: 'id' | 'email'): string =>
      todos(
        `type: text${key === 'email' ? ', primary_key: true' : ', required: true, unique: true'}`,
        'rls: []',
        `type: integer${key === 'id' ? ', primary_key: true' : ', unique: true, required: true'}`,
      ) + others('{ name: todo, foreign_key: { references: todos.id } }', refers);
    await world.settle(file('id'));
    await fill();
    await world.sql(`insert into others values (1, 1, 'e2'); analyze others`);
    await world.settle(file('email'), LARGE);
    expect(await references()).toEqual([
      { from: 'others', valid: true },
      { from: 'others', valid: true },
    ]);
    await world.settle(file('id'), LARGE);
  });

  test('a primary key moves off a column that changes its type online', async () => {
    const file = (key: string, email: string): string => todos(email, 'rls: []', key) + others(refers);
    await world.settle(file('type: integer, primary_key: true', 'type: text, required: true, unique: true'));
    await fill();
    await world.sql(`insert into others values (1, 'e2'); analyze others`);
    await world.settle(file('type: text', 'type: text, primary_key: true'), LARGE);
    expect(await references()).toEqual([{ from: 'others', valid: true }]);
  });

  test('a new key of a table that refers to itself', async () => {
    await world.settle(todos());
    await fill();
    const own = todos('type: text, unique: true').replace(
      '    rls: []',
      '      - { name: parent, foreign_key: { references: todos.email } }\n    rls: []',
    );
    await world.settle(own, LARGE);
    expect(await references()).toEqual([{ from: 'todos', valid: true }]);
  });
});
