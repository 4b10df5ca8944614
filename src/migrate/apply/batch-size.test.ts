import { expect, test } from 'vitest';
import { BatchSize, MAX_BATCH_MS, MAX_BATCH_ROWS } from './batch-size.ts';

test('a batch is at most twice as large as the previous one', () => {
  const size = new BatchSize();
  for (let round = 0; round < 20; round += 1) {
    const before = size.rows;
    size.succeeded(before, 0);
    expect(size.rows).toBeLessThanOrEqual(before * 2);
  }
  expect(size.rows).toBe(MAX_BATCH_ROWS);
});

test('a slow batch shrinks to the target duration in one step', () => {
  const size = new BatchSize();
  const before = size.rows;
  size.succeeded(before, 1_500);
  expect(size.rows).toBe(before / 10);
});

test('a range with few rows keeps the batch size', () => {
  const size = new BatchSize();
  const before = size.rows;
  size.succeeded(3, 1);
  expect(size.rows).toBe(before);
});

test('cancelled batches are halved down to one row, which has no deadline', () => {
  const size = new BatchSize();
  expect(size.deadlineMs).toBe(MAX_BATCH_MS);
  for (let round = 0; round < 20; round += 1) size.cancelled();
  expect(size.rows).toBe(1);
  expect(size.deadlineMs).toBeUndefined();
});
