import { expect, test } from 'vitest';
import { requalify } from './requalify.ts';

const waiting = new Map([
  ['public', 'w0'],
  ['Crm', 'w1'],
]);
const isBuilt = (schema: string, name: string): boolean => `${schema}.${name}` === 'public.todos';

test.each([
  ['public.citext', '"w0".citext'],
  ['PUBLIC . "Citext"', '"w0" . "Citext"'],
  ['"Crm".rate(1)', '"w1".rate(1)'],
  ['crm.rate(1)', 'crm.rate(1)'],
  ['select public.f(id) from public.todos', 'select "w0".f(id) from public.todos'],
  ["a = 'public.citext' -- public.citext", "a = 'public.citext' -- public.citext"],
  ['$$ public.citext $$', '$$ public.citext $$'],
  ['other.public.citext', 'other.public.citext'],
  ['a OPERATOR(public.=) b', 'a OPERATOR("w0".=) b'],
  ['public.*', 'public.*'],
  ['public', 'public'],
  ["public.f('", "public.f('"],
])('%s', (text, expected) => {
  expect(requalify(text, waiting, isBuilt)).toBe(expected);
});
