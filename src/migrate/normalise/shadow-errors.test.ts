// What the server refuses, as a problem at its place in the file.
import { expect, test } from 'vitest';
import { problem } from '../problem.ts';
import { toProblem, withoutConsequences, type ShadowStatement } from './shadow-errors.ts';

const written = 'id > 1\nand colour = 2';
const statement: ShadowStatement = {
  sql: `alter table t add constraint c check (\n${written}\n)`,
  at: 'tables.t.fields.id.check',
  piece: { sql: written, written, at: 'tables.t.fields.id.check' },
  retry: false,
};
const error = (message: string, more: object = {}): Error => Object.assign(new Error(message), more);

test('a caret stands under the place that the server names', () => {
  const position = statement.sql.indexOf('colour') + 1;
  expect(toProblem(statement, error('column "colour" does not exist', { position })).message).toBe(
    'column "colour" does not exist\n    and colour = 2\n        ^',
  );
});

test('without a position, under the name in the message', () => {
  expect(toProblem(statement, error('column t.colour does not exist')).message).toBe(
    'column t.colour does not exist\n    and colour = 2\n        ^',
  );
});

test('without either there is none', () => {
  expect(toProblem(statement, error('syntax error')).message).toBe('syntax error');
  expect(toProblem({ ...statement, piece: null }, error('column "id" does not exist')).message).toBe(
    'column "id" does not exist',
  );
});

test('the hint of the server is passed on', () => {
  expect(toProblem(statement, error('no', { hint: 'Perhaps you meant id.' }))).toMatchObject({
    code: 'MIG-101',
    at: 'tables.t.fields.id.check',
    hint: 'Perhaps you meant id.',
  });
});

test('what fails only because its table does is no news', () => {
  const at = ['tables.t', 'tables.t.fields.id.check', 'tables.other.fields.id.check', 'rpc.f'];
  const problems = at.map((place) => problem('MIG-101', place, 'no'));
  expect(withoutConsequences(problems).map((one) => one.at)).toEqual([
    'tables.t',
    'tables.other.fields.id.check',
    'rpc.f',
  ]);
});
