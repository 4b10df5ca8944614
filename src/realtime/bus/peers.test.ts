import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Peers } from './peers.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test('a missing number is a hole, for each channel separately', () => {
  const peers = new Peers();
  expect(peers.record('a', 'one', 5)).toEqual({ isNew: true, hasHole: false });
  expect(peers.record('a', 'two', 9)).toEqual({ isNew: false, hasHole: false });
  expect(peers.record('a', 'one', 6)).toEqual({ isNew: false, hasHole: false });
  expect(peers.record('a', 'one', 8)).toEqual({ isNew: false, hasHole: true });
  expect(peers.record('a', 'one', 9)).toEqual({ isNew: false, hasHole: false });
});

test('a silent instance is listed, and is new when it is back after its removal', () => {
  const peers = new Peers();
  peers.record('a', 'one', 1);
  vi.advanceTimersByTime(600);
  peers.record('b', 'one', 1);
  vi.advanceTimersByTime(600);
  expect(peers.silentFor(1_000)).toEqual(['a']);
  expect(peers.remove('a')).toBe(true);
  expect(peers.remove('a')).toBe(false);
  expect(peers.record('a', 'one', 7)).toEqual({ isNew: true, hasHole: false });
  expect(peers.size).toBe(2);
});
