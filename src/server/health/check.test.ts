import { expect, test } from 'vitest';
import { Check } from './check.ts';

test('a check is bad after it has failed for five seconds, and good after one success', () => {
  let now = 0;
  const check = new Check(5_000, () => now);
  expect(check.state).toBe('good');
  check.failed('no answer');
  now = 4_999;
  check.failed('still none');
  expect([check.state, check.reason]).toEqual(['failing', 'still none']);
  now = 5_000;
  expect(check.state).toBe('bad');
  check.passed();
  expect([check.state, check.reason]).toEqual(['good', undefined]);
  // A failure counts from the start of the failed attempt.
  check.failed('no answer', 1_000);
  now = 6_000;
  expect(check.state).toBe('bad');
});
