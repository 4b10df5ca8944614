import { expect, test } from 'vitest';
import type { Question } from './position.ts';
import { PositionTickets } from './position-tickets.ts';

/** A primary that is asked; each question is sent and answered by hand. */
function primary(): {
  tickets: PositionTickets;
  questions: Array<{ send(): void; answer(position: string): void; fail(): void }>;
} {
  const questions: Array<{ send(): void; answer(position: string): void; fail(): void }> = [];
  const tickets = new PositionTickets((): Question => {
    const { promise, resolve, reject } = Promise.withResolvers<readonly string[]>();
    let isSent = false;
    questions.push({
      send: () => (isSent = true),
      answer: (position) => resolve([position]),
      fail: () => reject(new Error('away')),
    });
    return {
      answer: promise,
      get isSent() {
        return isSent;
      },
    };
  });
  return { tickets, questions };
}

/** Long enough for promises that are settled already. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('reads that come before the question has left share it', async () => {
  const { tickets, questions } = primary();
  const [one, other] = [tickets.request(), tickets.request()];
  expect(questions).toHaveLength(1);
  questions[0]?.send();
  questions[0]?.answer('0/1');
  expect(await Promise.all([one, other])).toEqual(['0/1', '0/1']);
});

test('a question that has left is not the one of a read that comes after it; those share the next', async () => {
  const { tickets, questions } = primary();
  const first = tickets.request();
  questions[0]?.send();
  const [second, third] = [tickets.request(), tickets.request()];
  await turn();
  // One at a time.
  expect(questions).toHaveLength(1);
  questions[0]?.answer('0/1');
  expect(await first).toBe('0/1');
  await turn();
  expect(questions).toHaveLength(2);
  const fourth = tickets.request();
  questions[1]?.send();
  questions[1]?.answer('0/2');
  expect(await Promise.all([second, third, fourth])).toEqual(['0/2', '0/2', '0/2']);
});

test('a failed query fails only the reads that wait for it', async () => {
  const { tickets, questions } = primary();
  const first = tickets.request();
  questions[0]?.send();
  const second = tickets.request();
  questions[0]?.fail();
  await expect(first).rejects.toThrow('away');
  await turn();
  questions[1]?.answer('0/9');
  expect(await second).toBe('0/9');
});
