import pg from 'pg';
import { expect, test } from 'vitest';
import {
  ConnectionLost,
  databaseFailure,
  DatabaseUnavailable,
  failureClass,
  isDatabaseError,
  isOutcomeUnknown,
  NeverSent,
  OutcomeUnknown,
  sqlstate,
  writeError,
} from './pg-error.ts';

function reported(code: string, routine: string | null = 'ProcessInterrupts'): pg.DatabaseError {
  const error = new pg.DatabaseError('from the server', 0, 'error');
  error.code = code;
  if (routine !== null) error.routine = routine;
  return error;
}

const system = (code: string, syscall = 'connect'): Error =>
  Object.assign(new Error(code), { code, syscall });

test.each<[string, Error, string | undefined]>([
  ['starting up or in recovery', reported('57P03'), 'unreachable 503 2'],
  ['shut down by its administrator', reported('57P01'), 'unreachable 503 2'],
  ['a pooler that lost its server', reported('08006'), 'unreachable 503 2'],
  ['a password that is not right any more', reported('28P01'), 'unreachable 503 2'],
  ['no listener', system('ECONNREFUSED'), 'unreachable 503 2'],
  ['no way there', system('EHOSTUNREACH'), 'unreachable 503 2'],
  ['no response', system('ETIMEDOUT'), 'unreachable 503 2'],
  ['no such name', system('ENOTFOUND', 'getaddrinfo'), 'unreachable 503 2'],
  [
    'several addresses, none of which answers',
    new AggregateError([system('ECONNREFUSED')]),
    'unreachable 503 2',
  ],
  ['no such socket', system('ENOENT'), 'unreachable 503 2'],
  ['opening took too long', new Error('timeout expired'), 'unreachable 503 2'],
  [
    'opening took too long for the pool',
    new Error('Connection terminated due to connection timeout'),
    'unreachable 503 2',
  ],
  ['all connections busy', new Error('timeout exceeded when trying to connect'), 'busy 503 1'],
  ['too many connections', reported('53300'), 'busy 503 1'],
  ['a lock', reported('55P03'), 'locked 503 1'],
  ['a deadlock', reported('40P01'), 'locked 503 1'],
  ['a deadline', reported('57014'), 'timeout 504 1'],
  ['read-only', reported('25006'), 'read-only 503 5'],
  ['a full disk', reported('53100'), 'full 503 60'],
  ['a missing library', reported('58P01'), 'broken 500 undefined'],
  ['a damaged page', reported('XX001'), 'broken 500 undefined'],
  ['a write that was cut off', new OutcomeUnknown(new Error('x')), 'outcome-unknown 504 undefined'],
  ['no connection in time', new DatabaseUnavailable(new Error('x')), 'unreachable 503 2'],
  ['no room for a connection', new NeverSent(reported('53300')), 'busy 503 1'],
  ['a violated constraint', reported('23505'), undefined],
  ['a file of ours', system('ENOENT', 'open'), undefined],
  ['a fault', new TypeError('x is undefined'), undefined],
])('%s', (_what, error, expected) => {
  const failure = databaseFailure(error);
  const shown = failure && `${failure.kind} ${failure.status} ${failure.retryAfterSeconds}`;
  expect(shown).toBe(expected);
  // A hint must not suggest a retry of a write that may have committed.
  if (failure?.kind === 'outcome-unknown') expect(failure.hint).not.toMatch(/try again/i);
});

test('what may have happened: whatever ended the conversation without a word of the server itself', () => {
  expect(isOutcomeUnknown(new ConnectionLost('x'))).toBe(true);
  expect(isOutcomeUnknown(system('ECONNRESET', 'read'))).toBe(true);
  expect(isOutcomeUnknown(new Error('Connection terminated unexpectedly'))).toBe(true);
  expect(isOutcomeUnknown(reported('08P01', null))).toBe(true);
  expect(isOutcomeUnknown(reported('57P01', null))).toBe(true);
  expect(isOutcomeUnknown(reported('57P01'))).toBe(false);
  expect(isOutcomeUnknown(reported('25006'))).toBe(false);
  expect(isOutcomeUnknown(system('ECONNREFUSED'))).toBe(false);
  expect(isOutcomeUnknown(new Error('Connection terminated due to connection timeout'))).toBe(false);
});

test('a write on a read-only database reports read-only', () => {
  expect(databaseFailure(writeError(reported('25006')))?.kind).toBe('read-only');
  expect(databaseFailure(writeError(new ConnectionLost('x')))?.kind).toBe('outcome-unknown');
});

test.each<[string, unknown, string | undefined]>([
  ['lost in the middle', new ConnectionLost('x'), 'unknown'],
  ['no listener', system('ECONNREFUSED'), 'never-sent'],
  ['opening took too long', new Error('timeout expired'), 'never-sent'],
  ['no connection', new NeverSent(system('ECONNRESET', 'read')), 'never-sent'],
  ['shut down in the middle', reported('57P01'), 'rolled-back'],
  ['the same from a pooler', reported('57P01', null), 'unknown'],
  ['any error from a pooler', reported('58000', null), 'unknown'],
  ['a name that a pooler does not know', reported('26000', null), 'rolled-back'],
  ['a name that a pooler has already given', reported('42P05', null), 'rolled-back'],
  ['a lost connection, from any reporter', reported('08006'), 'unknown'],
  ['no answer in time', new Error('Query read timeout'), 'unknown'],
  ['a violated constraint', reported('23505'), 'rolled-back'],
  ['a fault', new TypeError('x is undefined'), undefined],
  ['no error', 'x', undefined],
])('can it have happened: %s', (_what, error, expected) => {
  expect(failureClass(error)).toBe(expected);
});

test('a code that PostgreSQL 18 has renamed is reported as before, unless a function raised it', () => {
  const raised = reported('23001');
  expect(isDatabaseError(raised, 'foreign_key_violation')).toBe(false);
  const violation = Object.assign(reported('23001'), { constraint: 'a_fkey' });
  expect(isDatabaseError(violation, 'foreign_key_violation')).toBe(true);
  expect(isDatabaseError(violation, 'unique_violation')).toBe(false);
  const codes = [raised, violation, reported('23505')].map(
    (error) => isDatabaseError(error) && sqlstate(error),
  );
  expect(codes).toEqual(['23001', '23503', '23505']);
});
