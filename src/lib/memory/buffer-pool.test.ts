import { expect, test } from 'vitest';
import { BufferPool } from './buffer-pool.ts';

test('gives back what is large enough and keeps no more than it may', () => {
  const pool = new BufferPool(2, 100);
  const small = pool.acquire(10);
  const large = pool.acquire(100);
  pool.give(small);
  pool.give(large);
  expect(pool.acquire(50)).toBe(large);
  expect(pool.acquire(5)).toBe(small);
  const tooLarge = pool.acquire(101);
  pool.give(tooLarge);
  expect(pool.acquire(101)).not.toBe(tooLarge);
});
