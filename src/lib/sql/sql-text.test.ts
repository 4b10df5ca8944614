import { describe, expect, test } from 'vitest';
import {
  expressionFault,
  holdsSubSelect,
  relationsIn,
  unwrapCallerHelpers,
  sqlWords,
  wrapCallerHelpers,
} from './sql-text.ts';

describe('an expression stays inside its parentheses', () => {
  test.each([
    ['a > 1', null],
    ["note = 'it''s; (fine' -- ;)", null],
    ['body = $x$ ); drop table t; $x$', null],
    [`"odd) name" is null /* ; ( /* nested */ ) */`, null],
    [`e'\\')' = x`, null],
    ['true); drop table t; --', 'a closing parenthesis has no opening one'],
    ['true; select 1', 'it must be one expression, without a semicolon'],
    ['(a', 'a parenthesis is not closed'],
    ["'open", 'a string is not closed'],
    ['"open', 'a quoted name is not closed'],
    ['/* open', 'a comment is not closed'],
    ['$x$ open', 'a dollar-quoted string is not closed'],
    ['  -- nothing', 'it is empty'],
  ])('%s', (text, fault) => expect(expressionFault(text)).toBe(fault));
});

describe('caller helpers are evaluated once per statement', () => {
  test.each([
    ['auth.uid() = owner', '(select auth.uid()) = owner'],
    ['owner = AUTH . uid ( )', 'owner = (select AUTH . uid ( ))'],
    ['(select auth.uid()) = owner', '(select auth.uid()) = owner'],
    [
      "auth.is_authenticated() and note <> 'auth.uid()'",
      "(select auth.is_authenticated()) and note <> 'auth.uid()'",
    ],
    ['x.auth.uid() is null', 'x.auth.uid() is null'],
    [
      "auth.jwt() ->> 'role' = 'x' or auth.uid() is null",
      "(select auth.jwt()) ->> 'role' = 'x' or (select auth.uid()) is null",
    ],
    ['my_auth.uid() = owner', 'my_auth.uid() = owner'],
    ['exists (select from auth.jwt() as j)', 'exists (select from auth.jwt() as j)'],
    ['exists (select from a, lateral auth.uid() u)', 'exists (select from a, lateral auth.uid() u)'],
    ['owner in (auth.uid(), other)', 'owner in ((select auth.uid()), other)'],
    [
      'exists (select from a join b on b.id = auth.uid(), auth.jwt() j where a.id is distinct from auth.uid())',
      'exists (select from a join b on b.id = (select auth.uid()), auth.jwt() j where a.id is distinct from (select auth.uid()))',
    ],
  ])('%s', (text, wrapped) => expect(wrapCallerHelpers(text)).toBe(wrapped));

  test('the print of the server reads as it was written', () => {
    expect(unwrapCallerHelpers('(owner = ( SELECT auth.uid() AS uid))')).toBe('(owner = auth.uid())');
    const read = 'SELECT FROM ( SELECT auth.uid() AS uid) me';
    expect(unwrapCallerHelpers(read)).toBe(read);
  });
});

test('names are found as words, quoted or not, and inside strings', () => {
  const words = sqlWords(`select "Odd Name", Todos.id from x where execute('insert into log') -- hidden`);
  for (const word of ['Odd Name', 'todos', 'id', 'x', 'log']) expect(words, word).toContain(word);
  expect(words).not.toContain('hidden');
});

describe('what a sub-select reads', () => {
  const name = (...parts: string[]): string[] => parts;
  test.each([
    ['owner = auth.uid()', []],
    ["note = 'select from x'", []],
    ['exists (select from docs d where d.id = doc_id)', [name('docs')]],
    [
      'id in (select 1 from public.Docs, "Odd ""Name" o, only t)',
      [name('public', 'docs'), name('Odd "Name'), name('t')],
    ],
    [
      'exists (select from a left join b on a.id = b.id, c where x in (d, e))',
      [name('a'), name('b'), name('c')],
    ],
    ['exists (select from (a join b using (id)) where true)', [name('a'), name('b')]],
    ['exists (select from (select 1 from a) x, (values (1)) y)', [name('a')]],
    ['id in (table public.a union select id from b)', [name('public', 'a'), name('b')]],
    ['id in (with x as (select * from a) select id from x)', [name('a'), name('x')]],
    ['exists (select from f(1) g, a)', [name('a')]],
    ['exists (select extract(year from at) from a where b is not distinct from c)', [name('a')]],
    ['exists (select from u&"\\0061")', [null]],
    ['exists (select a.from, a.table from a)', [name('a')]],
  ])('%s', (text, relations) => expect(relationsIn(text)).toEqual(relations));

  test.each([
    ['owner = auth.uid()', false],
    ['owner = ( /* cached */ select auth.uid())', true],
    ["exists (SELECT from a) and note = 'x'", true],
    ["note = '(select'", false],
    ['(a.select)', false],
  ])('%s holds one: %s', (text, holds) => expect(holdsSubSelect(text)).toBe(holds));
});
