import { expect, test } from 'vitest';
import { Backoff } from './backoff.ts';

function nextPauses(backoff: Backoff, count: number): number[] {
  return Array.from({ length: count }, () => backoff.next());
}

test('each pause is twice the one before, up to the maximum', () => {
  expect(nextPauses(new Backoff({ minMs: 100, maxMs: 500 }), 5)).toEqual([100, 200, 400, 500, 500]);
});

test('after a success it begins with the first pause', () => {
  const backoff = new Backoff({ minMs: 100, maxMs: 500 });
  nextPauses(backoff, 4);
  backoff.reset();
  expect(nextPauses(backoff, 2)).toEqual([100, 200]);
});

test('an immediate first attempt has no pause, also after a success', () => {
  const backoff = new Backoff({ minMs: 100, maxMs: 500, immediate: true });
  expect(nextPauses(backoff, 4)).toEqual([0, 100, 200, 400]);
  backoff.reset();
  expect(nextPauses(backoff, 2)).toEqual([0, 100]);
});

test('jitter spreads a pause from half to one and a half of it', () => {
  const pauses = nextPauses(new Backoff({ minMs: 100, maxMs: 100, jitter: true }), 200);
  expect(Math.min(...pauses)).toBeGreaterThanOrEqual(50);
  expect(Math.max(...pauses)).toBeLessThan(150);
  expect(new Set(pauses).size).toBeGreaterThan(100);
});
