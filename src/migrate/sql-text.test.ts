import { describe, expect, test } from 'vitest';
import { expressionFault, unwrapCallerHelpers, wordsOf, wrapCallerHelpers } from './sql-text.ts';

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
  ])('%s', (text, wrapped) => expect(wrapCallerHelpers(text)).toBe(wrapped));

  test('the print of the server reads as it was written', () => {
    expect(unwrapCallerHelpers('(owner = ( SELECT auth.uid() AS uid))')).toBe('(owner = auth.uid())');
  });
});

test('names are found as words, quoted or not, and inside strings', () => {
  const words = wordsOf(`select "Odd Name", Todos.id from x where execute('insert into log') -- hidden`);
  for (const word of ['Odd Name', 'todos', 'id', 'x', 'log']) expect(words, word).toContain(word);
  expect(words).not.toContain('hidden');
});
