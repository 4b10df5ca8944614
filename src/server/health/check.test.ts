import { expect, test } from 'vitest';
import { Check } from './check.ts';

test('bad after five seconds of failing, good after one success', () => {
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
  // A failure is as old as the attempt that shows it.
  check.failed('no answer', 1_000);
  now = 6_000;
  expect(check.state).toBe('bad');
});
