// Conversion of server errors to problems with a position in the file.
import { expect, test } from 'vitest';
import { problem } from '../../problem.ts';
import { toProblem, withoutConsequences, type ShadowStatement } from './shadow-errors.ts';

const written = 'id > 1\nand colour = 2';
const statement: ShadowStatement = {
  sql: `alter table t add constraint c check (\n${written}\n)`,
  at: 'tables.t.fields.id.check',
  piece: { sql: written, written, at: 'tables.t.fields.id.check' },
  retry: false,
};
const error = (message: string, more: object = {}): Error => Object.assign(new Error(message), more);

test('a caret marks the position that the server reports', () => {
  const position = statement.sql.indexOf('colour') + 1;
  expect(toProblem(statement, error('column "colour" does not exist', { position })).message).toBe(
    'column "colour" does not exist\n    and colour = 2\n        ^',
  );
});

test('without a position, a caret marks the name in the message', () => {
  expect(toProblem(statement, error('column t.colour does not exist')).message).toBe(
    'column t.colour does not exist\n    and colour = 2\n        ^',
  );
});

test('without a position and a name, there is no caret', () => {
  expect(toProblem(statement, error('syntax error')).message).toBe('syntax error');
  expect(toProblem({ ...statement, piece: null }, error('column "id" does not exist')).message).toBe(
    'column "id" does not exist',
  );
});

test('the hint of the server is kept', () => {
  expect(toProblem(statement, error('no', { hint: 'Perhaps you meant id.' }))).toMatchObject({
    code: 'MIG-101',
    at: 'tables.t.fields.id.check',
    hint: 'Perhaps you meant id.',
  });
});

test('failures that follow from the failure of a table are removed', () => {
  const at = ['tables.t', 'tables.t.fields.id.check', 'tables.other.fields.id.check', 'rpc.f'];
  const problems = at.map((place) => problem('MIG-101', place, 'no'));
  expect(withoutConsequences(problems).map((remaining) => remaining.at)).toEqual([
    'tables.t',
    'tables.other.fields.id.check',
    'rpc.f',
  ]);
});

test.each([
  [
    'data type uuid has no default operator class for access method "gist"',
    'exclude',
    /extensions: \[btree_gist\]/,
  ],
  ['function uuid_generate_v4() does not exist', 'uuid_generate_v4()', /gen_random_uuid\(\)/],
  ['relation "public.counter" does not exist', "nextval('public.counter')", /sequences: \{ counter: \{\} \}/],
])('%s: the hint is a line for svc.yaml', (message, written, advice) => {
  const statement = {
    sql: written,
    at: 'tables.t',
    piece: { sql: written, written, at: 'tables.t' },
    retry: false,
  };
  const error = Object.assign(new Error(message), { hint: 'You must specify an operator class.' });
  expect(toProblem(statement, error).hint).toMatch(advice);
});
