import { describe, expect, test } from 'vitest';
import { afterAttempt, isLastAttempt, MAX_LOSSES, type Outcome } from './state.ts';

const FIRST = { attempts: 1, failures: 0, retries: 0 };
const S = 1_000;
const M = 60 * S;
const H = 60 * M;

describe('after an attempt', () => {
  test.each<[Outcome, typeof FIRST, string, number, number, number]>([
    ['done', FIRST, 'done', 0, 1, 0],
    ['done', { attempts: 4, failures: 3, retries: 3 }, 'done', 0, 4, 3],
    ['failed', FIRST, 'dead', 0, 1, 1],
    ['failed', { attempts: 1, failures: 0, retries: 2 }, 'waiting', 5 * S, 1, 1],
    ['failed', { attempts: 2, failures: 1, retries: 2 }, 'waiting', 15 * S, 2, 2],
    ['failed', { attempts: 3, failures: 2, retries: 2 }, 'dead', 0, 3, 3],
    ['failed', { attempts: 3, failures: 2, retries: 20 }, 'waiting', M, 3, 3],
    ['failed', { attempts: 4, failures: 3, retries: 20 }, 'waiting', 5 * M, 4, 4],
    ['failed', { attempts: 5, failures: 4, retries: 20 }, 'waiting', 15 * M, 5, 5],
    ['failed', { attempts: 6, failures: 5, retries: 20 }, 'waiting', H, 6, 6],
    ['failed', { attempts: 7, failures: 6, retries: 20 }, 'waiting', 3 * H, 7, 7],
    ['failed', { attempts: 8, failures: 7, retries: 20 }, 'waiting', 6 * H, 8, 8],
    ['failed', { attempts: 9, failures: 8, retries: 20 }, 'waiting', 12 * H, 9, 9],
    ['failed', { attempts: 20, failures: 19, retries: 20 }, 'waiting', 12 * H, 20, 20],
    ['failed', { attempts: 21, failures: 20, retries: 20 }, 'dead', 0, 21, 21],
    ['rejected', { attempts: 1, failures: 0, retries: 20 }, 'dead', 0, 1, 1],
    ['lost', FIRST, 'waiting', 0, 1, 0],
    ['lost', { attempts: MAX_LOSSES - 1, failures: 0, retries: 0 }, 'waiting', 0, MAX_LOSSES - 1, 0],
    ['lost', { attempts: MAX_LOSSES, failures: 0, retries: 9 }, 'dead', 0, MAX_LOSSES, 0],
    ['lost', { attempts: 7, failures: 6, retries: 9 }, 'waiting', 0, 7, 6],
    ['returned', FIRST, 'waiting', 2 * S, 0, 0],
    ['returned', { attempts: 3, failures: 2, retries: 2 }, 'waiting', 2 * S, 2, 2],
  ])('%s, %o: %s', (outcome, progress, state, pauseMs, attempts, failures) => {
    expect(afterAttempt(progress, outcome)).toEqual({ state, pauseMs, attempts, failures });
  });

  test('the factor spreads the pauses', () => {
    expect(afterAttempt({ attempts: 1, failures: 0, retries: 1 }, 'failed', 1.2).pauseMs).toBe(6 * S);
  });
});

test.each([
  [0, 0, true],
  [0, 1, false],
  [1, 1, true],
  [2, 3, false],
])('after %i failures with %i retries, the next attempt is the last: %s', (failures, retries, last) => {
  expect(isLastAttempt({ attempts: failures + 1, failures, retries })).toBe(last);
});
