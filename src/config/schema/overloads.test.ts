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

test('what goes in tells functions of one name apart', () => {
  const args = [
    { name: 'a', type: 'int' },
    { name: 'b', type: 'text', mode: 'out' },
    { name: 'c', type: 'text', mode: 'variadic' },
  ] as const;
  expect(inputTypes(args)).toEqual(['integer', 'text[]']);
});

test('a function is found by the names of its arguments, and by their types where these are the same or new', () => {
  const one = (name: string, type: string) => ({ args: [{ name, type }] });
  const [number, text, other] = [one('a', 'integer'), one('a', 'text'), one('b', 'date')];
  const all = [number, text, other];
  expect(withArguments(all, [{ name: 'b', type: 'uuid' }])).toBe(other);
  expect(withArguments(all, [{ name: 'a', type: 'varchar' }])).toBe(undefined);
  expect(withArguments(all, [{ name: 'a', type: 'int4' }])).toBe(number);
  expect(withArguments(all, [{ name: 'renamed', type: 'text' }])).toBe(text);
  expect(withArguments(all, [])).toBe(undefined);
});
