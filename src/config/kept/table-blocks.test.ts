import { describe, expect, test } from 'vitest';
import { cutTables, withoutBlocks } from './table-blocks.ts';

const TEXT = `version: 1 # of the format
tables: # all of them
  # The first.
  todos:
    comment: |
      several lines
    # not a table: of todos
  notes.old: { fields: [] }

  # The last.
  Rooms:
    fields:
      - name: id
storage:
  pictures: {}
`;

describe('a section of tables', () => {
  test('is cut at the keys of its tables', () => {
    const cut = cutTables(TEXT);
    expect(cut?.blocks.map(({ name, line }) => [name, line])).toEqual([
      ['todos', 4],
      ['notes.old', 8],
      ['Rooms', 11],
    ]);
    expect(cut?.blocks[1]?.text).toBe('  notes.old: { fields: [] }\n\n  # The last.\n');
    expect(cut?.after).toBe('storage:\n  pictures: {}\n');
    expect([cut?.before, ...(cut?.blocks.map(({ text }) => text) ?? []), cut?.after].join('')).toBe(TEXT);
  });

  test('may end the text, with or without a line end', () => {
    for (const text of ['tables:\n  a: {}', 'tables:\n  a: {}\n', 'tables:\n  a: {}\n\n# end'])
      expect(cutTables(text)).toMatchObject({ blocks: [{ name: 'a', line: 2 }], after: '' });
  });

  test('without some of them leaves all others in their lines', () => {
    const cut = cutTables(TEXT);
    const left = cut && withoutBlocks(cut, (name) => name !== 'Rooms');
    expect(left?.split('\n').map((line, n) => (line === '' ? '' : `${n + 1} ${line}`))).toEqual([
      '1 version: 1 # of the format',
      '2 tables: # all of them',
      '3   # The first.',
      ...Array<string>(7).fill(''),
      '11   Rooms:',
      '12     fields:',
      '13       - name: id',
      '14 storage:',
      '15   pictures: {}',
      '',
    ]);
  });
});

test.each([
  ['no section', 'version: 1\n'],
  ['nothing in it', 'tables:\nstorage: {}\n'],
  ['braces', 'tables: { a: {} }\n'],
  ['braces over several lines', 'tables: {\n  a: {} }\n'],
  ['two sections', 'tables:\n  a: {}\ntables:\n  b: {}\n'],
  ['a quoted name of the section', '"tables":\n  a: {}\n'],
  ['a quoted name of a table', 'tables:\n  "a": {}\n'],
  ['a name in letters of another alphabet', 'tables:\n  größe: {}\n'],
  ['no space behind a colon', 'tables:\n  a:{}\n'],
  ['a list', 'tables:\n  - a: {}\n'],
  ['keys in different columns', 'tables:\n    a: {}\n  b: {}\n'],
  ['a bracket that is closed in the column of the keys', 'tables:\n  a: {\n  }\n'],
  ['a tab', 'tables:\n  a: {}\n\tb: {}\n'],
  ['line ends of Windows', 'tables:\r\n  a: {}\r\n'],
  ['a line end of JavaScript', 'tables:\n  a: { comment: one\u2028  b: two }\n'],
  ['a byte order mark', '\uFEFFtables:\n  a: {}\n'],
  ['a second document', 'tables:\n  a: {}\n---\n'],
  ['a directive', '%YAML 1.2\n---\ntables:\n  a: {}\n'],
  ['an anchor', 'tables:\n  a: &all { fields: [] }\n  b: *all\n'],
  ['an anchor in braces', 'tables:\n  a: {fields: &all []}\n'],
])('%s is not cut', (_what, text) => {
  expect(cutTables(text)).toBeUndefined();
});

test.each([
  ['conditions with &&', 'tables:\n  a: { check: x && y }\n'],
  ['searches with &', 'tables:\n  a: { check: "q @@ \'a & b\'" }\n'],
  ['stars', 'tables:\n  a: { check: (select count(*) from b) > 2 * 3 }\n'],
])('%s are no anchors', (_what, text) => {
  expect(cutTables(text)?.blocks).toHaveLength(1);
});
