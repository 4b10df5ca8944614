// Hints for undeclared renames, and detection of tables that were renamed by hand.
import { describe, expect, test } from 'vitest';
import { liveDatabase, declared, ownedAfter } from '../../../test/migrate/schema-without-database.ts';
import { diff } from './diff.ts';
import { findManualRenames, renameHints } from './rename-hints.ts';

const table = (name: string, ...fields: string[]): string =>
  `  ${name}:\n    fields:\n      - { name: id, type: bigint, primary_key: true }\n` +
  fields.map((field) => `      - { ${field} }\n`).join('');
const file = (...tables: string[]): string => `tables:\n${tables.join('')}`;

function hints(before: string, after: string): string[] {
  const was = declared(before);
  const { changes } = diff(declared(after), liveDatabase(was), ownedAfter(was));
  return renameHints(changes).map(({ at, message }) => `${at}: ${message}`);
}

const TITLE = 'name: title, type: text';
const SIZE = 'name: size, type: integer';
const DUE = 'name: due, type: date';

describe('hints', () => {
  test.each<[what: string, before: string, after: string, hints: string[]]>([
    [
      'a removed and a new column of the same type',
      file(table('todos', TITLE)),
      file(table('todos', 'name: headline, type: text')),
      ['tables.todos.fields.headline: new column headline has the type of removed column title'],
    ],
    [
      'columns of different types',
      file(table('todos', TITLE)),
      file(table('todos', 'name: headline, type: uuid')),
      [],
    ],
    [
      'columns of different tables',
      file(table('todos', TITLE), table('notes')),
      file(table('todos'), table('notes', 'name: headline, type: text')),
      [],
    ],
    [
      'a removed and a new table with the same columns',
      file(table('todos', TITLE, SIZE)),
      file(table('tasks', TITLE, SIZE)),
      ['tables.tasks: new table tasks has the columns of removed table todos'],
    ],
    [
      'tables with similar columns',
      file(table('todos', TITLE, SIZE, DUE)),
      file(table('tasks', TITLE, SIZE, 'name: until, type: date')),
      ['tables.tasks: new table tasks has nearly the columns of removed table todos'],
    ],
    [
      'tables with few common columns',
      file(table('todos', TITLE, SIZE, DUE)),
      file(table('tasks', TITLE)),
      [],
    ],
    [
      'the most similar of several removed tables',
      file(table('a', TITLE), table('b', TITLE, SIZE)),
      file(table('c', TITLE, SIZE)),
      ['tables.c: new table c has the columns of removed table b'],
    ],
  ])('%s', (_what, before, after, expected) => expect(hints(before, after)).toEqual(expected));
});

test('a table with the constraints of a missing table was renamed by hand', () => {
  const was = declared(file(table('todos', TITLE)));
  const live = liveDatabase(was);
  const [todos] = live.tables.values();
  const renamed = { ...live, tables: new Map(todos ? [['public.tasks', { ...todos, name: 'tasks' }]] : []) };
  const { changes } = diff(was, renamed, ownedAfter(was));
  expect(findManualRenames(changes, renamed, ownedAfter(was))).toMatchObject([
    { code: 'MIG-206', at: 'tables.todos', hint: expect.stringContaining('renamed_from: todos') },
  ]);
});
