import pg from 'pg';
import { describe, expect, test } from 'vitest';
import { ConnectionLost, DatabaseUnavailable, NeverSent, OutcomeUnknown } from '../../pg-error.ts';
import { afterFailure, toCaller, type Failure } from './after-failure.ts';

function reported(code: string, routine: string | undefined = 'ProcessInterrupts'): pg.DatabaseError {
  const error = new pg.DatabaseError('from the server', 0, 'error');
  error.code = code;
  if (routine !== '') error.routine = routine;
  return error;
}

const FIRST: Omit<Failure, 'error' | 'isRead'> = {
  failures: 1,
  isAboutName: false,
  isNameless: false,
  isInTime: true,
};

const neverSent = new NeverSent(new Error('refused'));
const lost = new ConnectionLost('closed');
const ofPooler = reported('08P01', '');

describe.each<[string, Partial<Failure> & Pick<Failure, 'error'>, read: string, write: string]>([
  ['never sent', { error: neverSent }, 'again', 'again'],
  ['never sent, many times', { error: neverSent, failures: 9 }, 'again', 'again'],
  ['never sent, the window over', { error: neverSent, isInTime: false }, 'answer', 'answer'],
  ['stopped', { error: reported('57P01') }, 'again', 'again'],
  ['stopped for the second time', { error: reported('57P02'), failures: 2 }, 'again', 'again'],
  ['stopped for the third time', { error: reported('57P03'), failures: 3 }, 'answer', 'answer'],
  ['stopped, the window over', { error: reported('57P01'), isInTime: false }, 'answer', 'answer'],
  ['an unknown name', { error: reported('26000'), isAboutName: true }, 'again-nameless', 'again-nameless'],
  [
    'an unknown name, the window over',
    { error: reported('26000'), isAboutName: true, isInTime: false },
    'again-nameless',
    'again-nameless',
  ],
  [
    'an unknown name without names',
    { error: reported('26000'), isAboutName: true, isNameless: true },
    'answer',
    'answer',
  ],
  ['26000 from within a function', { error: reported('26000') }, 'answer', 'answer'],
  ['no writes here', { error: reported('25006') }, 'answer', 'ask'],
  ['no writes here, the window over', { error: reported('25006'), isInTime: false }, 'answer', 'answer'],
  ['serialization', { error: reported('40001') }, 'answer', 'answer'],
  ['deadlock', { error: reported('40P01') }, 'answer', 'answer'],
  ['a violated constraint', { error: reported('23505') }, 'answer', 'answer'],
  ['lost', { error: lost }, 'again', 'answer'],
  ['lost, the window over', { error: lost, isInTime: false }, 'again', 'answer'],
  ['lost for the second time', { error: lost, failures: 2 }, 'answer', 'answer'],
  ['57P01 that is not of PostgreSQL', { error: reported('57P01', '') }, 'again', 'answer'],
  ["a pooler's word", { error: ofPooler }, 'again', 'answer'],
  ['class 08, of PostgreSQL', { error: reported('08006') }, 'again', 'answer'],
  ['a fault of ours', { error: new TypeError('x is undefined') }, 'answer', 'answer'],
])('%s', (_, failure, read, write) => {
  test(`a read: ${read}`, () => expect(afterFailure({ ...FIRST, ...failure, isRead: true })).toBe(read));
  test(`a write: ${write}`, () => expect(afterFailure({ ...FIRST, ...failure, isRead: false })).toBe(write));
});

test('the error states whether the write may have taken effect', () => {
  const violated = reported('23505');
  expect(toCaller(neverSent, false)).toBeInstanceOf(DatabaseUnavailable);
  expect(toCaller(reported('57P01'), false)).toBeInstanceOf(DatabaseUnavailable);
  expect(toCaller(lost, false)).toBeInstanceOf(OutcomeUnknown);
  expect(toCaller(lost, true)).toBeInstanceOf(DatabaseUnavailable);
  expect(toCaller(ofPooler, false)).toBeInstanceOf(OutcomeUnknown);
  expect(toCaller(violated, false)).toBe(violated);
});
