import { expect, test } from 'vitest';
import { RestartDelay } from './restart-delay.ts';

test('the first restart is at once, the next ones later and later, and a minute of health forgets them', () => {
  const delay = new RestartDelay();
  const waits = (served: number, times: number): number[] =>
    Array.from({ length: times }, () => delay.next(served));
  expect(waits(0, 8)).toEqual([0, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000]);
  expect(waits(59_999, 1)).toEqual([60_000]);
  expect(waits(60_000, 1)).toEqual([0]);
  expect(waits(0, 1)).toEqual([500]);
});
