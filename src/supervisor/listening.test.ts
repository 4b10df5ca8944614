import { expect, test } from 'vitest';
import { keepsListening } from './listening.ts';

test.each([
  ['ready', undefined, true, true],
  ['not ready for a moment', 9_999, true, true],
  ['not ready, while others are', 10_000, true, false],
  ['not ready, and no other worker is', 60_000, false, true],
])('a worker that is %s', (_name, unreadyMs, othersAreReady, expected) => {
  expect(keepsListening(unreadyMs, othersAreReady)).toBe(expected);
});
