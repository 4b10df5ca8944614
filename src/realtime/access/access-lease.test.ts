import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { AccessLease } from './access-lease.ts';

const LENGTH_MS = 2_000;
const OVERDUE_MS = 1_000;

let answer: { resolve: (may: boolean) => void; reject: (error: Error) => void } | undefined;
let checks = 0;
let delivered: string[] = [];
let lease: AccessLease;

beforeEach(() => {
  vi.useFakeTimers();
  checks = 0;
  delivered = [];
  lease = new AccessLease({
    lengthMs: () => LENGTH_MS,
    checkRights: async () => {
      checks += 1;
      return await new Promise<boolean>((resolve, reject) => {
        answer = { resolve, reject };
      });
    },
  });
});
afterEach(() => {
  vi.useRealTimers();
});

const deliver = (...texts: string[]): void => {
  for (const text of texts) lease.deliver(() => delivered.push(text));
};

test('a fresh answer is trusted, one that grows old is asked again in the background, once', () => {
  deliver('a');
  vi.advanceTimersByTime(1_200);
  deliver('b', 'c');
  expect(delivered).toEqual(['a', 'b', 'c']);
  expect(checks).toBe(1);
});

test('silence asks nothing, however long', () => {
  vi.advanceTimersByTime(3_600_000);
  expect(checks).toBe(0);
});

test('after the lease has ended, messages wait for the answer and keep their order', async () => {
  vi.advanceTimersByTime(2_001);
  deliver('a', 'b');
  expect([checks, delivered]).toEqual([1, []]);
  answer?.resolve(true);
  await vi.advanceTimersByTimeAsync(0);
  deliver('c');
  expect(delivered).toEqual(['a', 'b', 'c']);
});

test('messages that wait for a lost right are never sent', async () => {
  vi.advanceTimersByTime(2_001);
  deliver('a');
  answer?.resolve(false);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(delivered).toEqual([]);
});

test.each([
  ['fails', (): void => answer?.reject(new Error('away'))],
  ['does not come', (): void => {}],
])('an answer that %s leaves the right as it was, until the next time', async (_how, end) => {
  vi.advanceTimersByTime(2_001);
  deliver('a');
  end();
  await vi.advanceTimersByTimeAsync(OVERDUE_MS);
  deliver('b');
  expect(delivered).toEqual(['a', 'b']);
});

test('an answer counts from when it was asked for', async () => {
  vi.advanceTimersByTime(2_001);
  deliver('a');
  await vi.advanceTimersByTimeAsync(900);
  answer?.resolve(true);
  await vi.advanceTimersByTimeAsync(1_101);
  deliver('b');
  expect(delivered).toEqual(['a']);
  expect(checks).toBe(2);
});

test('a closed channel drops the messages that waited', async () => {
  vi.advanceTimersByTime(2_001);
  deliver('a');
  lease.close();
  answer?.resolve(true);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(delivered).toEqual([]);
});
