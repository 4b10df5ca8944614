import { expect, test, vi } from 'vitest';
import { RetryUntilDone } from './retry-until-done.ts';

test('what fails is tried again until it succeeds, with longer pauses, and then no more', async () => {
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
    work.ask();
    await vi.advanceTimersByTimeAsync(0);
    expect(runs).toBe(1);
    await vi.advanceTimersByTimeAsync(250);
    expect(runs).toBe(2);
    await vi.advanceTimersByTimeAsync(250);
    expect(runs).toBe(2);
    await vi.advanceTimersByTimeAsync(80_000);
    expect([runs, failures.length]).toEqual([11, 10]);
    work.ask();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(runs).toBe(12);
  } finally {
    vi.useRealTimers();
  }
});

test('what is asked for while it runs is one more run, and after a failure does not wait', async () => {
  vi.useFakeTimers();
  try {
    const ends: Array<(error?: Error) => void> = [];
    const work = new RetryUntilDone(
      () => new Promise((resolve, reject) => ends.push((error) => (error ? reject(error) : resolve()))),
      () => {},
    );
    for (let asked = 0; asked < 5; asked++) work.ask();
    expect(ends).toHaveLength(1);
    ends[0]?.();
    await vi.advanceTimersByTimeAsync(0);
    expect(ends).toHaveLength(2);
    ends[1]?.(new Error('lost'));
    await vi.advanceTimersByTimeAsync(0);
    work.ask();
    expect(ends).toHaveLength(3);
    ends[2]?.();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(ends).toHaveLength(3);
    work.close();
    work.ask();
    expect(ends).toHaveLength(3);
  } finally {
    vi.useRealTimers();
  }
});
