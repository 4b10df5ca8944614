import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ReadLease } from './read-lease.ts';

const LENGTH_MS = 2_000;
const OVERDUE_MS = 1_000;

let answer: { resolve: (may: boolean) => void; reject: (error: Error) => void } | undefined;
let asked = 0;
let heard: string[] = [];
let lease: ReadLease;

beforeEach(() => {
  vi.useFakeTimers();
  asked = 0;
  heard = [];
  lease = new ReadLease({
    lengthMs: () => LENGTH_MS,
    ask: async () => {
      asked += 1;
      return await new Promise<boolean>((resolve, reject) => {
        answer = { resolve, reject };
      });
    },
  });
});
afterEach(() => {
  vi.useRealTimers();
});

const hear = (...texts: string[]): void => {
  for (const text of texts) lease.hear(() => heard.push(text));
};

test('a fresh answer is trusted, one that grows old is asked again in the background, once', () => {
  hear('a');
  vi.advanceTimersByTime(1_200);
  hear('b', 'c');
  expect(heard).toEqual(['a', 'b', 'c']);
  expect(asked).toBe(1);
});

test('silence asks nothing, however long', () => {
  vi.advanceTimersByTime(3_600_000);
  expect(asked).toBe(0);
});

test('after it, what comes waits for the answer and keeps its order', async () => {
  vi.advanceTimersByTime(2_001);
  hear('a', 'b');
  expect([asked, heard]).toEqual([1, []]);
  answer?.resolve(true);
  await vi.advanceTimersByTimeAsync(0);
  hear('c');
  expect(heard).toEqual(['a', 'b', 'c']);
});

test('what waited for a right that is lost is never heard', async () => {
  vi.advanceTimersByTime(2_001);
  hear('a');
  answer?.resolve(false);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(heard).toEqual([]);
});

test.each([
  ['fails', (): void => answer?.reject(new Error('away'))],
  ['does not come', (): void => {}],
])('an answer that %s leaves the right as it was, until the next time', async (_how, end) => {
  vi.advanceTimersByTime(2_001);
  hear('a');
  end();
  await vi.advanceTimersByTimeAsync(OVERDUE_MS);
  hear('b');
  expect(heard).toEqual(['a', 'b']);
});

test('an answer counts from when it was asked for', async () => {
  vi.advanceTimersByTime(2_001);
  hear('a');
  await vi.advanceTimersByTimeAsync(900);
  answer?.resolve(true);
  await vi.advanceTimersByTimeAsync(1_101);
  hear('b');
  expect(heard).toEqual(['a']);
  expect(asked).toBe(2);
});

test('a channel that has ended sends nothing of what waited', async () => {
  vi.advanceTimersByTime(2_001);
  hear('a');
  lease.close();
  answer?.resolve(true);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(heard).toEqual([]);
});
