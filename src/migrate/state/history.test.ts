import { expect, test } from 'vitest';
import { parseConfig } from '../../../test/migrate/parse-config.ts';
import { toModel } from '../schema/declared.ts';
import { withRenamesReversed } from './history.ts';

function reversed(target: string, current: string): string[] {
  const { tables } = withRenamesReversed(toModel(parseConfig(target)), toModel(parseConfig(current)));
  return tables.flatMap((table) => [
    table.renamedFrom === null ? table.name : `${table.renamedFrom} → ${table.name}`,
    ...table.columns.map(({ name, renamedFrom }) =>
      renamedFrom === null ? `  ${name}` : `  ${renamedFrom} → ${name}`,
    ),
  ]);
}

const file = (table: string, ...columns: readonly string[]): string => `tables:
  ${table}
    fields:
${columns.map((column) => `      - { ${column}, type: text }\n`).join('')}`;

test.each<readonly [string, string, string, readonly string[]]>([
  [
    'an unchanged file has no renames',
    file('todos:', 'name: title'),
    file('todos:', 'name: title'),
    ['todos', '  title'],
  ],
  [
    'a column gets its former name back',
    file('todos:', 'name: title'),
    file('todos:', 'name: headline, renamed_from: title'),
    ['todos', '  headline → title'],
  ],
  [
    'a table and its columns get their former names back',
    file('todos:', 'name: title', 'name: done'),
    file('tasks:\n    renamed_from: todos', 'name: headline, renamed_from: title', 'name: done'),
    ['tasks → todos', '  headline → title', '  done'],
  ],
  [
    'an earlier rename of the target file is dropped',
    file('todos:\n    renamed_from: things', 'name: title, renamed_from: label'),
    file('todos:', 'name: title'),
    ['todos', '  title'],
  ],
  [
    'a removed table returns under its own name',
    file('todos:\n    renamed_from: things', 'name: title, renamed_from: label'),
    file('notes:', 'name: text'),
    ['todos', '  title'],
  ],
  [
    'an additional column does not count as a rename',
    file('todos:', 'name: title'),
    file('todos:', 'name: title', 'name: headline'),
    ['todos', '  title'],
  ],
])('%s', (_name, target, current, expected) => {
  expect(reversed(target, current)).toEqual(expected);
});
