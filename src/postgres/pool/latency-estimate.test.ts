import { describe, expect, test } from 'vitest';
import { LatencyEstimate } from './latency-estimate.ts';

function after(...runs: ReadonlyArray<readonly [ms: number, wasFirst?: boolean]>): LatencyEstimate {
  const latency = new LatencyEstimate();
  for (const [ms, wasFirst = true] of runs) latency.record(ms, wasFirst);
  return latency;
}

describe('quick', () => {
  test('a statement that never ran is not', () => expect(after().isQuick).toBe(false));
  test('one that can be quick is, also after a slow run', () => expect(after([1], [60]).isQuick).toBe(true));
  test('one whose mean is high is not', () =>
    expect(after([1], [300], [300], [300], [300], [300]).isQuick).toBe(false));
  test('one that has never been quick is not', () => expect(after([20], [20]).isQuick).toBe(false));
  test('the answers of pipelined runs do not make it quick', () =>
    expect(after([20], [1, false], [1, false]).isQuick).toBe(false));
});

test('the long mean follows more slowly than the mean', () => {
  const latency = after([1], ...Array.from({ length: 8 }, () => [100] as const));
  expect(latency.mean).toBeGreaterThan(60);
  expect(latency.longMean).toBeLessThan(10);
});
