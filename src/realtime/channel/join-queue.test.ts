import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { JoinQueue } from './join-queue.ts';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

/** Answers by caller, in the order in which they come. */
function joins(queue: JoinQueue, key: string, count: number): boolean[] {
  const answers: boolean[] = [];
  for (let at = 0; at < count; at++) void queue.admit(key).then((isAdmitted) => answers.push(isAdmitted));
  return answers;
}

test('joins over the rate wait instead of being refused', async () => {
  const queue = new JoinQueue(
    () => 100,
    () => Date.now(),
  );
  const answers = joins(queue, 'a', 200);
  await vi.advanceTimersByTimeAsync(0);
  expect(answers.length).toBe(100);
  await vi.advanceTimersByTimeAsync(3_000);
  expect(answers).toEqual(Array(200).fill(true));
});

test('a caller that joins in a loop delays no other caller', async () => {
  const queue = new JoinQueue(
    () => 100,
    () => Date.now(),
  );
  const greedy = joins(queue, 'greedy', 900);
  await vi.advanceTimersByTimeAsync(1_000);
  const honest = joins(queue, 'honest', 10);
  await vi.advanceTimersByTimeAsync(500);
  expect(honest).toEqual(Array(10).fill(true));
  // Half of the rate, after what may come at once.
  await vi.advanceTimersByTimeAsync(60_000);
  expect(greedy.filter(Boolean).length).toBeLessThan(100 + 50 * 6);
  expect(greedy.length).toBe(900);
});

test('a caller has a bounded number of waiting joins, and the end of the queue refuses them', async () => {
  const queue = new JoinQueue(
    () => 1,
    () => Date.now(),
  );
  const answers = joins(queue, 'a', 1_002);
  await vi.advanceTimersByTimeAsync(0);
  expect(answers).toEqual([true, false]);
  queue.close();
  await vi.advanceTimersByTimeAsync(0);
  expect(answers.filter(Boolean)).toEqual([true]);
  expect(answers.length).toBe(1_002);
});
