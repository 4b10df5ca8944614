import { expect, test } from 'vitest';
import { releaseBytes } from './release-bytes.ts';

test('a chunk with memory of its own is empty afterwards', () => {
  const chunk = Buffer.allocUnsafeSlow(100);
  releaseBytes(chunk);
  expect(chunk.length).toBe(0);
});

test('a chunk that shares its memory keeps it', () => {
  const whole = Buffer.allocUnsafeSlow(100).fill(1);
  const part = whole.subarray(10, 20);
  releaseBytes(part);
  expect([part.length, whole[15]]).toEqual([10, 1]);
  const pooled = Buffer.from('small');
  releaseBytes(pooled);
  expect(pooled.toString()).toBe('small');
});
