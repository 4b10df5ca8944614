// Changes that wait for an online type change. In most cases the type of todos.amount changes.
import { describe, expect, test } from 'vitest';
import { liveDatabase, declared, ownedAfter } from '../../../test/migrate/schema-without-database.ts';
import type { Change } from '../diff/change.ts';
import { ofKind } from '../diff/change-kinds.ts';
import { diff } from '../diff/diff.ts';
import { columnKey } from './object-key.ts';
import { waitingChanges } from './graph.ts';

type File = {
  readonly type?: string;
  readonly fields?: readonly string[];
  readonly more?: string;
  readonly tables?: string;
  readonly rest?: string;
};

const items = (fields: readonly string[]): string => fields.map((field) => `      - { ${field} }\n`).join('');

const table = (name: string, ...fields: string[]): string =>
  `  ${name}:\n    fields:\n${items(['name: id, type: bigint, primary_key: true', ...fields])}`;

const file = ({ type = 'integer', fields = [], more = '', tables = '', rest = '' }: File): string =>
  `tables:\n${table('todos', `name: amount, type: ${type}`, ...fields)}${more}${tables}${rest}`;

const notes = (...fields: string[]): string => table('notes', ...fields);

/** Returns the changes that wait if the types of these columns change online. */
function waitingFor(changes: readonly Change[], ...online: readonly string[]): ReadonlySet<Change> {
  const starts = ofKind(changes, 'change-type').filter(({ table, column }) =>
    online.includes(columnKey(table, column.name)),
  );
  return waitingChanges(changes, starts);
}

/** Returns the kinds of the changes that wait, and of the others. */
function split(before: File, after: File): { deferred: Change['kind'][]; now: Change['kind'][] } {
  const was = declared(file(before));
  const { changes } = diff(declared(file({ type: 'bigint', ...after })), liveDatabase(was), ownedAfter(was));
  const deferred = waitingFor(changes, 'column public.todos.amount');
  return {
    deferred: changes.filter((change) => deferred.has(change)).map(({ kind }) => kind),
    now: changes.filter((change) => !deferred.has(change)).map(({ kind }) => kind),
  };
}

const rpc = (body: string, name = 'total'): string =>
  `rpc:\n  ${name}: { language: sql, returns: { type: integer }, body: ${body} }\n`;
const policy = (using: string): string => `    rls: [{ operations: [select], using: "${using}" }]\n`;

describe('what waits', () => {
  test.each<[what: string, before: File, after: File, deferred: string[], now: string[]]>([
    ['the type change itself', {}, {}, ['change-type'], []],
    ['a new column does not', {}, { fields: ['name: title, type: text'] }, ['change-type'], ['add-column']],
    [
      'a new column whose default names it does',
      {},
      { fields: ['name: title, type: integer, default: { sql: amount() }'] },
      ['change-type', 'add-column'],
      [],
    ],
    [
      'a check that names it does, another does not',
      { fields: ['name: size, type: integer', 'name: rank, type: integer'] },
      { fields: ['name: size, type: integer, check: size < amount', 'name: rank, type: integer, min: 1'] },
      ['change-type', 'add-check'],
      ['add-check'],
    ],
    [
      'an index on it',
      {},
      { more: '    indexes: [{ columns: [amount] }]\n' },
      ['change-type', 'add-index'],
      [],
    ],
    [
      'a partial index whose predicate names it',
      {},
      { more: '    indexes: [{ columns: [id], where: amount > 1 }]\n' },
      ['change-type', 'add-index'],
      [],
    ],
    [
      'a function that names the column or takes its rows',
      {},
      { rest: rpc('select sum(amount) from todos') },
      ['change-type', 'create-function'],
      [],
    ],
    ['a function that names neither', {}, { rest: rpc('select 1') }, ['change-type'], ['create-function']],
    [
      'a table whose default calls a function that waits',
      {},
      {
        tables: notes('name: n, type: integer, default: { sql: total() }'),
        rest: rpc('select max(amount) from todos'),
      },
      ['change-type', 'create-table', 'add-key', 'grant-table', 'create-function'],
      [],
    ],
    [
      'a function that reads a table that waits',
      {},
      {
        tables: notes('name: n, type: integer, default: { sql: amount() }'),
        rest: rpc('select max(n) from notes'),
      },
      ['change-type', 'create-table', 'add-key', 'grant-table', 'create-function'],
      [],
    ],
    [
      'all policies of a table change together',
      { more: policy('amount > 1') },
      { more: policy('amount > 2') },
      ['change-type', 'drop-policy', 'create-policy'],
      [],
    ],
    [
      'policies of another table do not',
      { tables: `${notes()}${policy('id > 1')}` },
      { tables: `${notes()}${policy('id > 2')}` },
      ['change-type'],
      ['drop-policy', 'create-policy'],
    ],
    [
      'a removed function: a policy that waits may still call it',
      { rest: rpc('select 1') },
      {},
      ['change-type', 'drop-function'],
      [],
    ],
    ['a removed table may go at once', { tables: notes() }, {}, ['change-type'], ['retire-table']],
  ])('%s', (_what, before, after, deferred, now) => {
    expect(split(before, after)).toEqual({ deferred, now });
  });

  test('both ends of a foreign key change their type together', () => {
    const both = (type: string): string => `tables:
  lists:
    fields: [{ name: id, type: ${type}, primary_key: true }]
${table('todos', 'name: list, foreign_key: { references: lists.id }')}`;
    const was = declared(both('integer'));
    const { changes } = diff(declared(both('bigint')), liveDatabase(was), ownedAfter(was));
    const deferred = waitingFor(changes, 'column public.lists.id');
    expect(changes.filter((change) => deferred.has(change)).map(({ kind }) => kind)).toEqual([
      'change-type',
      'change-type',
      'drop-foreign-key',
      'add-foreign-key',
    ]);
  });

  // A type change that ran before the cutover would compare keys of two types in the meantime.
  test('the other end of a foreign key waits too if a name in use holds back one end', () => {
    const both = (type: string, amount: string, check: string): string => `tables:
  lists:
    fields: [{ name: size, type: ${type}, primary_key: true }]
${table('todos', `name: amount, type: ${amount}${check}`, 'name: list, foreign_key: { references: lists.size }')}`;
    const was = declared(both('integer', 'integer', ', check: "amount > 1 and size(id) > 1"'));
    const { changes } = diff(declared(both('bigint', 'bigint', '')), liveDatabase(was), ownedAfter(was));
    const deferred = waitingFor(changes, 'column public.todos.amount');
    expect(
      ofKind([...deferred], 'change-type').map(({ table: { name }, column }) => `${name}.${column.name}`),
    ).toEqual(['todos.amount', 'lists.size', 'todos.list']);
  });

  test('nothing waits where no type changes online', () => {
    const was = declared(file({}));
    const { changes } = diff(declared(file({ type: 'bigint' })), liveDatabase(was), ownedAfter(was));
    expect(waitingFor(changes).size).toBe(0);
  });
});
