import { expect, test } from 'vitest';
import { renameInFiles } from './edit-file.ts';

const FILE = `# everything
tables:
  # lists
  lists:
    fields:
      - { name: id, type: uuid, primary_key: true } # the key
      - name: title
        type: text
    indexes:
      - { columns: [title, id] }
  todos:
    rls: []
    fields:
      - { name: id, type: uuid, primary_key: true }
      - name: list
        foreign_key: { references: lists.id, on_delete: cascade } # whose
  "odd.name": { fields: [{ name: id, type: uuid }] }
`;

function renameInFile(text: string, path: string, name: string): string {
  return renameInFiles(new Map([['', text]]), path, name).get('') ?? text;
}

test('a table is renamed with its references, and gets renamed_from', () => {
  expect(renameInFile(FILE, 'lists', 'folders')).toBe(
    FILE.replace('  lists:\n', '  folders:\n    renamed_from: lists\n').replace('lists.id', 'folders.id'),
  );
});

test('a field in block style is renamed with its indexes', () => {
  expect(renameInFile(FILE, 'lists.title', 'name')).toBe(
    FILE.replace('name: title\n', 'name: name\n        renamed_from: title\n').replace(
      '[title, id]',
      '[name, id]',
    ),
  );
});

test('a field in flow style is renamed with its indexes and references', () => {
  expect(renameInFile(FILE, 'lists.id', 'key')).toBe(
    FILE.replace('{ name: id,', '{ name: key, renamed_from: id,')
      .replace('[title, id]', '[title, key]')
      .replace('lists.id', 'lists.key'),
  );
});

test('a table in flow style with a dot in its name is renamed', () => {
  expect(renameInFile(FILE, 'odd.name', 'odd')).toBe(
    FILE.replace('"odd.name": { fields', 'odd: { renamed_from: odd.name, fields'),
  );
});

test('a second rename replaces renamed_from of the first', () => {
  const once = renameInFile(FILE, 'lists', 'folders');
  expect(renameInFile(once, 'folders', 'groups')).toBe(
    once
      .replace('  folders:', '  groups:')
      .replace('renamed_from: lists', 'renamed_from: folders')
      .replace('folders.id', 'groups.id'),
  );
});

test.each(['nope', 'lists.nope', 'nope.title'])('a rename of the missing %s throws', (path) => {
  expect(() => renameInFile(FILE, path, 'x')).toThrow(`${path} is not in the file`);
});

test('a rename changes each entry in its own file', () => {
  const texts = new Map([
    ['', 'version: 1\ninclude: [a.yaml, b.yaml]\n'],
    ['a.yaml', '# Lists\ntables:\n  lists:\n    fields: [{ name: id, type: bigint, primary_key: true }]\n'],
    [
      'b.yaml',
      'tables:\n  todos:\n    fields:\n      - { name: list_id, foreign_key: { references: lists.id } } # of\n',
    ],
  ]);
  expect([...renameInFiles(texts, 'lists', 'folders')]).toEqual([
    [
      'a.yaml',
      '# Lists\ntables:\n  folders:\n    renamed_from: lists\n' +
        '    fields: [{ name: id, type: bigint, primary_key: true }]\n',
    ],
    [
      'b.yaml',
      'tables:\n  todos:\n    fields:\n      - { name: list_id, foreign_key: { references: folders.id } } # of\n',
    ],
  ]);
});
