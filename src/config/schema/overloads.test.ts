import { expect, test } from 'vitest';
import { inputTypes, plainType, withArguments } from './overloads.ts';

test.each([
  ['int', 'integer'],
  ['INT4 [ ]', 'integer[]'],
  ['varchar(40)', 'character varying'],
  ['character varying (40)', 'character varying'],
  ['timestamp(3) with time zone', 'timestamp with time zone'],
  ['timestamptz', 'timestamp with time zone'],
  ['numeric(5, 2)[3][4]', 'numeric[]'],
  ['public.mood', 'mood'],
  ['"public"."Mood"[]', 'mood[]'],
  ['crm.mood', 'crm.mood'],
])('%s is %s', (written, plain) => {
  expect(plainType(written)).toBe(plain);
});

test('input types identify an overload', () => {
  const args = [
    { name: 'a', type: 'int' },
    { name: 'b', type: 'text', mode: 'out' },
    { name: 'c', type: 'text', mode: 'variadic' },
  ] as const;
  expect(inputTypes(args)).toEqual(['integer', 'text[]']);
});

test('an overload is selected by argument names, or by types if names are equal or new', () => {
  const overload = (name: string, type: string) => ({ args: [{ name, type }] });
  const [number, text, date] = [overload('a', 'integer'), overload('a', 'text'), overload('b', 'date')];
  const all = [number, text, date];
  expect(withArguments(all, [{ name: 'b', type: 'uuid' }])).toBe(date);
  expect(withArguments(all, [{ name: 'a', type: 'varchar' }])).toBe(undefined);
  expect(withArguments(all, [{ name: 'a', type: 'int4' }])).toBe(number);
  expect(withArguments(all, [{ name: 'renamed', type: 'text' }])).toBe(text);
  expect(withArguments(all, [])).toBe(undefined);
});
