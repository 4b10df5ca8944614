import { expect, test, vi } from 'vitest';
import { RetryUntilDone } from './retry-until-done.ts';

test('failed work is retried with growing pauses until it succeeds', async () => {
  vi.useFakeTimers();
  try {
    let runs = 0;
    const failures: unknown[] = [];
    const work = new RetryUntilDone(
      async () => {
        runs += 1;
        if (runs < 11) throw new Error(`failure ${runs}`);
        await Promise.resolve();
      },
      (error) => failures.push(error),
    );
    work.request();
    await vi.advanceTimersByTimeAsync(0);
    expect(runs).toBe(1);
    await vi.advanceTimersByTimeAsync(250);
    expect(runs).toBe(2);
    await vi.advanceTimersByTimeAsync(250);
    expect(runs).toBe(2);
    await vi.advanceTimersByTimeAsync(80_000);
    expect([runs, failures.length]).toEqual([11, 10]);
    work.request();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(runs).toBe(12);
  } finally {
    vi.useRealTimers();
  }
});

test('calls during a run lead to one more run, and a call after a failure starts at once', async () => {
  vi.useFakeTimers();
  try {
    const ends: Array<(error?: Error) => void> = [];
    const work = new RetryUntilDone(
      () => new Promise((resolve, reject) => ends.push((error) => (error ? reject(error) : resolve()))),
      () => {},
    );
    for (let call = 0; call < 5; call++) work.request();
    expect(ends).toHaveLength(1);
    ends[0]?.();
    await vi.advanceTimersByTimeAsync(0);
    expect(ends).toHaveLength(2);
    ends[1]?.(new Error('lost'));
    await vi.advanceTimersByTimeAsync(0);
    work.request();
    expect(ends).toHaveLength(3);
    ends[2]?.();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(ends).toHaveLength(3);
    work.close();
    work.request();
    expect(ends).toHaveLength(3);
  } finally {
    vi.useRealTimers();
  }
});
