import { expect, test } from 'vitest';
import { empty, ident, join, literal, quoteIdent, quoteLiteral, raw, sql } from './sql.ts';

test('values become numbered parameters in their order', () => {
  const inner = sql`b = ${2}`;
  expect(sql`select ${1}, ${inner}, ${'x'}`.compile()).toEqual({
    text: 'select $1, b = $2, $3',
    values: [1, 2, 'x'],
  });
});

test('a quote in a name or a constant cannot end it', () => {
  expect(ident('public', 'a"b').compile().text).toBe('"public"."a""b"');
  expect(literal("it's").compile().text).toBe("'it''s'");
  expect(quoteLiteral('a\\b')).toBe(" E'a\\\\b'");
  expect(() => quoteIdent('a\0b')).toThrow(/NUL/);
  expect(() => quoteLiteral('a\0b')).toThrow(/NUL/);
});

test('join puts the separator between parts only', () => {
  expect(join([sql`${1}`, sql`${2}`]).compile()).toEqual({ text: '$1, $2', values: [1, 2] });
  expect(join([], ' and ').compile().text).toBe('');
  expect(sql`a ${raw('asc')}${empty}`.compile().text).toBe('a asc');
});

test('an absent value is null, never the word undefined', () => {
  expect(sql`select ${null}`.compile().values).toEqual([null]);
});
