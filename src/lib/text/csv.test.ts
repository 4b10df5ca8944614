import { expect, test } from 'vitest';
import { csvField, readCsv } from './csv.ts';

test.each([
  ['a,b\n1,2', [['1', '2']]],
  ['a,b\r\n1,2\r\n\r\n', [['1', '2']]],
  [
    '\n\na,b\n\n1,2\n\n\n3,4',
    [
      ['1', '2'],
      ['3', '4'],
    ],
  ],
  [
    'a,b\n,\n"",NULL\n"NULL","a\nb,""c"""',
    [
      [null, null],
      ['', null],
      ['NULL', 'a\nb,"c"'],
    ],
  ],
  ['a,b\n 1, \n', [[' 1', ' ']]],
  ['a,b\n1,', [['1', null]]],
  ['a\n\n""\nNULL\n', [[''], [null]]],
])('%j', (text, rows) => {
  expect(readCsv(text).rows).toEqual(rows);
});

test.each([
  ['', 'The CSV is empty'],
  ['\n\n', 'The CSV is empty'],
  ['a,a\n1,2', "The header line names 'a' twice"],
  ['a,b\n1', 'All lines must have same number of fields'],
  ['a\n"1', 'parse error (not enough input)'],
  ['a\n"1"2', 'parse error (endOfInput)'],
])('%j is refused', (text, message) => {
  expect(() => readCsv(text)).toThrow(message);
});

test('a field is quoted where a reader would take it for something else', () => {
  expect(['a', 'a b', '', 'NULL', 'a,b', 'a"b', 'a\nb'].map(csvField)).toEqual([
    'a',
    'a b',
    '""',
    '"NULL"',
    '"a,b"',
    '"a""b"',
    '"a\nb"',
  ]);
});
