// Detection of expressions that PostgreSQL can parse without calling a function.
import { expect, test } from 'vitest';
import { isBuiltIn, isConstant } from './without-evaluation.ts';

test.each([
  "in ('a', 'b')",
  "from ('2026-01-01') to (maxvalue)",
  "from (date '2026-01-01', 1.5) to ('2027-01-01'::timestamp with time zone, -1)",
  'with (modulus 4, remainder 1)',
  'default',
  "'{a,b}'::text[]",
  '/* a note */ null',
])('%s is constant', (sql) => expect(isConstant(sql)).toBe(true));

test.each([
  "in (lower('A'))",
  "in ((table_to_xml('auth.users', true, true, '')::text))",
  "in ('x'::d)",
  "in (d 'x')",
  `in ("f"('x'))`,
  'from (now()) to (maxvalue)',
  'from (current_date) to (maxvalue)',
  "in ('a' || 'b')",
  "in (public.f('x'))",
  'in ((select 1))',
])('%s is computed', (sql) => expect(isConstant(sql)).toBe(false));

test.each([
  ['text', true],
  ['numeric(10, 2)', true],
  ['timestamp(3) with time zone', true],
  ['text[]', true],
  ['d', false],
  ['d[]', false],
  ['public.d', false],
])('%s is a built-in type: %s', (type, expected) => expect(isBuiltIn(type)).toBe(expected));
