// Which changes wait for a type change that is made online. The type of todos.amount is what changes.
import { describe, expect, test } from 'vitest';
import { databaseOf, declared, ownedAfter } from '../../../test/migrate/schema-without-database.ts';
import type { Change } from '../diff/change.ts';
import { diff } from '../diff/diff.ts';
import { deferredChanges } from './deferred.ts';

type File = {
  readonly type?: string;
  readonly fields?: readonly string[];
  readonly more?: string;
  readonly tables?: string;
  readonly rest?: string;
};

const file = ({ type = 'integer', fields = [], more = '', tables = '', rest = '' }: File): string =>
  `tables:\n  todos:\n    fields:\n      - { name: id, type: bigint, primary_key: true }\n      - { name: amount, type: ${type} }\n${fields.map((field) => `      - { ${field} }\n`).join('')}${more}${tables}${rest}`;

const notes = (...fields: string[]): string =>
  `  notes:\n    fields:\n      - { name: id, type: bigint, primary_key: true }\n${fields.map((field) => `      - { ${field} }\n`).join('')}`;

/** Kinds of the changes that wait, and of those that do not. */
function split(before: File, after: File): { deferred: Change['kind'][]; now: Change['kind'][] } {
  const was = declared(file(before));
  const { changes } = diff(declared(file({ type: 'bigint', ...after })), databaseOf(was), ownedAfter(was));
  const deferred = deferredChanges(changes, new Set(['public.todos.amount']));
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
    [
      'a new column beside it does not',
      {},
      { fields: ['name: title, type: text'] },
      ['change-type'],
      ['add-column'],
    ],
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
    const both = (type: string): string =>
      `tables:\n  lists:\n    fields: [{ name: id, type: ${type}, primary_key: true }]\n  todos:\n    fields:\n      - { name: id, type: bigint, primary_key: true }\n      - { name: list, foreign_key: { references: lists.id } }\n`;
    const was = declared(both('integer'));
    const { changes } = diff(declared(both('bigint')), databaseOf(was), ownedAfter(was));
    const deferred = deferredChanges(changes, new Set(['public.lists.id']));
    expect([...deferred].map(({ kind }) => kind)).toEqual([
      'change-type',
      'change-type',
      'drop-foreign-key',
      'add-foreign-key',
    ]);
  });

  test('nothing waits where no type changes online', () => {
    const was = declared(file({}));
    const { changes } = diff(declared(file({ type: 'bigint' })), databaseOf(was), ownedAfter(was));
    expect(deferredChanges(changes, new Set()).size).toBe(0);
  });
});
