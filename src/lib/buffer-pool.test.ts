import { expect, test } from 'vitest';
import { BufferPool } from './buffer-pool.ts';

test('gives back what is large enough and keeps no more than it may', () => {
  const pool = new BufferPool(2, 100);
  const small = pool.take(10);
  const large = pool.take(100);
  pool.give(small);
  pool.give(large);
  expect(pool.take(50)).toBe(large);
  expect(pool.take(5)).toBe(small);
  const tooLarge = pool.take(101);
  pool.give(tooLarge);
  expect(pool.take(101)).not.toBe(tooLarge);
});
