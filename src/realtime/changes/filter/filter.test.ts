// Filters of bindings: parsing and rejection.
import { expect, test } from 'vitest';
import { localTest } from './condition-test.ts';
import { FilterError, parseFilter, type Condition } from './filter.ts';
import { isVisible } from '../transaction-visibility.ts';

const parseOne = (text: string): Condition | undefined => parseFilter(text)[0];

test.each([
  ['id=eq.7', { column: 'id', operator: 'eq', values: ['7'], isNegated: false }],
  ['a=not.in.(1,2)', { column: 'a', operator: 'in', values: ['1', '2'], isNegated: true }],
  ['a=eq.x=y.z', { column: 'a', values: ['x=y.z'] }],
  ['a=eq."b,c\\"d"', { values: ['b,c"d'] }],
  ['a=in.("x,y",z)', { values: ['x,y', 'z'] }],
  ['a=eq.f(1,2)', { values: ['f(1,2)'] }],
  ['a=eq.', { values: [''] }],
  ['a=is.NULL', { operator: 'is', values: ['NULL'] }],
])('%s', (text, expected) => {
  expect(parseOne(text)).toMatchObject(expected);
});

test('conditions are joined by commas, and blank text has no conditions', () => {
  expect(parseFilter('a=eq.1,b=lt.2')).toHaveLength(2);
  expect(parseFilter('  ')).toEqual([]);
});

test.each([
  'a',
  '=eq.1',
  'a=1',
  'a=equals.1',
  'a=in.1',
  'a=in.(1',
  'a=eq."1',
  'a=eq."1"2',
  'a=is.maybe',
  'a=eq.1,',
])('%s is rejected', (text) => {
  expect(() => parseFilter(text)).toThrow(FilterError);
});

test('a filter has at most a hundred conditions and values', () => {
  const many = (n: number, text: string): string => Array.from({ length: n }, () => text).join(',');
  expect(parseFilter(many(100, 'a=eq.1'))).toHaveLength(100);
  expect(() => parseFilter(many(101, 'a=eq.1'))).toThrow(FilterError);
  expect(() => parseFilter(`a=in.(${many(101, '1')})`)).toThrow(FilterError);
});

test.each<[string, string, string | null, boolean | undefined]>([
  ['a=eq.7', 'int4', '7', true],
  ['a=eq.+07', 'int8', '7', true],
  ['a=eq.7', 'int4', null, false],
  ['a=neq.7', 'int4', null, false],
  ['a=not.eq.7', 'int4', null, false],
  ['a=isdistinct.7', 'int4', null, true],
  ['a=gt.9', 'int8', '10', true],
  ['a=gt.9', 'text', '10', undefined],
  ['a=eq.1.0', 'numeric', '1', undefined],
  ['a=eq.TRUE', 'bool', 't', true],
  ['a=is.false', 'bool', 'f', true],
  ['a=is.unknown', 'bool', null, true],
  ['a=not.is.null', 'jsonb', '{}', true],
  ['a=eq.00000000-0000-4000-8000-00000000000A', 'uuid', '00000000-0000-4000-8000-00000000000a', true],
  ['a=in.(a,b)', 'text', 'b', true],
  ['a=not.in.(a,b)', 'text', 'b', false],
  ['a=like.b%', 'text', 'b', undefined],
])('%s of type %s with %s is %s', (text, type, value, expected) => {
  const condition = parseOne(text);
  expect(condition && localTest(condition, type)?.(value)).toBe(expected);
});

test('a transaction is visible when a new snapshot contains it, also after its number has wrapped', () => {
  const sees = (snapshot: string, xid: number): boolean => isVisible(snapshot, new Set([xid]));
  expect(sees('100:100:', 99)).toBe(true);
  expect(sees('100:100:', 100)).toBe(false);
  expect(sees('100:110:105', 105)).toBe(false);
  expect(sees('100:110:105', 106)).toBe(true);
  // 2^32 + 10 is next; 5 is of this round, 4,294,967,290 of the one before.
  expect(sees('4294967306:4294967306:', 5)).toBe(true);
  expect(sees('4294967306:4294967306:', 4_294_967_290)).toBe(true);
  expect(sees('4294967290:4294967290:', 3)).toBe(false);
});
