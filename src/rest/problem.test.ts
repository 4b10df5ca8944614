import { expect, test } from 'vitest';
import type { Problem } from '../problem/problem.ts';
import * as catalogue from './problem.ts';

/** Every entry once, so that no code, status or hint changes unseen. */
const ENTRIES: ReadonlyArray<readonly [Problem, string, number]> = [
  [catalogue.syntaxError('filter', '1', 1, 'd'), 'PGRST100', 400],
  [catalogue.tooDeep('x'), 'PGRST100', 400],
  [catalogue.methodNotForRoutine('GET', 'OPTIONS,POST'), 'PGRST101', 405],
  [catalogue.invalidJson(), 'PGRST102', 400],
  [catalogue.rangeNotSatisfiable('d', 3), 'PGRST103', 416],
  [catalogue.badPutFilters(), 'PGRST105', 405],
  [catalogue.schemaNotExposed('x', ['public']), 'PGRST106', 406],
  [catalogue.notAcceptable('text/foo'), 'PGRST107', 406],
  [catalogue.notEmbedded('x'), 'PGRST108', 400],
  [catalogue.badResponseHeaders(), 'PGRST111', 500],
  [catalogue.badResponseStatus(), 'PGRST112', 500],
  [catalogue.pageOnPut(), 'PGRST114', 400],
  [catalogue.putMismatch(), 'PGRST115', 400],
  [catalogue.notSingular(0), 'PGRST116', 406],
  [catalogue.notSingularWrite(4), 'PGRST116', 406],
  [catalogue.unsupportedMethod('TRACE'), 'PGRST117', 405],
  [catalogue.methodNotForRelation('POST', 'a', 'GET'), 'PGRST117', 405],
  [catalogue.badTimeZone('+99'), '22023', 400],
  [catalogue.unsupportedEncoding('zstd'), 'SVC106', 415],
  [catalogue.unsupportedCharset('utf-16'), 'SVC106', 415],
  [catalogue.relatedOrderImpossible('a', 'b'), 'PGRST118', 400],
  [catalogue.badRaise('d', 'h'), 'PGRST121', 500],
  [catalogue.invalidPreferences(['foo']), 'PGRST122', 400],
  [catalogue.tooManyAffected(3), 'PGRST124', 400],
  [catalogue.invalidPath(), 'PGRST125', 404],
  [catalogue.spreadAggregate(), 'PGRST127', 400],
  [catalogue.maxAffectedOnSingle(), 'PGRST128', 400],
  [catalogue.noRelationship('a', 'b', undefined, 'public', undefined), 'PGRST200', 400],
  [new catalogue.AmbiguousEmbed('m', 'h', []), 'PGRST201', 300],
  [catalogue.routineNotFound('m', 'd', 'h'), 'PGRST202', 404],
  [catalogue.badArguments('m', 'd', 'h'), 'PGRST202', 400],
  [catalogue.ambiguousRoutine([{ schema: 'public', name: 'f', args: [] }]), 'PGRST203', 300],
  [catalogue.sameArgument({ name: 'f' }, ['a', 'b']), 'PGRST202', 400],
  [catalogue.unknownColumn('a', 'b'), 'PGRST204', 400],
  [catalogue.sameColumn('a', 'b', 'c'), 'PGRST204', 400],
  [catalogue.relationNotFound('public', 'a', undefined), 'PGRST205', 404],
  [catalogue.loginRequired(), 'PGRST302', 401],
  [catalogue.noApiKey(), 'SVC100', 401],
  [catalogue.unknownApiKey(), 'SVC100', 401],
  [catalogue.sessionRestricted(), 'insufficient_aal', 403],
  [catalogue.badToken('PGRST303', 'JWT expired'), 'PGRST303', 401],
  [catalogue.invalidGuard('max-affected=x'), 'PGRST122', 400],
  [catalogue.limitOnWrite('limit'), 'SVC109', 400],
  [catalogue.orderWithoutRows(), 'SVC109', 400],
  [catalogue.havingNeedsAggregate(), 'SVC110', 400],
  [catalogue.unknownAggregate('x'), 'SVC111', 400],
  [catalogue.requestDeadline(), 'SVC102', 504],
  [catalogue.responseTooLarge(1024), 'SVC103', 400],
  [catalogue.givenUp(), 'SVC105', 503],
  [catalogue.undefinedColumn('a', 'b'), '42703', 400],
  [catalogue.duplicateEmbed('a'), '42712', 400],
  [catalogue.whereRequired('UPDATE'), '21000', 400],
];

test.each(ENTRIES.map(([problem, code, status]) => [code, problem, status] as const))(
  '%s',
  (code, problem, status) => {
    expect(problem.code).toBe(code);
    expect(problem.status).toBe(status);
    expect(problem.message).not.toBe('');
    expect(problem.hint ?? '').not.toBe('');
  },
);

test('no entry is missing from the table', () => {
  const makers = Object.keys(catalogue).filter((name) => name !== 'badBody');
  expect(ENTRIES).toHaveLength(makers.length);
});
