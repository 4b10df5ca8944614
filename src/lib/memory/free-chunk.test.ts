import { expect, test } from 'vitest';
import { freeChunk } from './free-chunk.ts';

test('a chunk with separate memory is empty afterwards', () => {
  const chunk = Buffer.allocUnsafeSlow(100);
  freeChunk(chunk);
  expect(chunk.length).toBe(0);
});

test('a chunk that shares its memory keeps it', () => {
  const whole = Buffer.allocUnsafeSlow(100).fill(1);
  const part = whole.subarray(10, 20);
  freeChunk(part);
  expect([part.length, whole[15]]).toEqual([10, 1]);
  const pooled = Buffer.from('small');
  freeChunk(pooled);
  expect(pooled.toString()).toBe('small');
});
