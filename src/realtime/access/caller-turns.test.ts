import { expect, test } from 'vitest';
import { CallerTurns } from './caller-turns.ts';

test('a caller with many questions leaves room for another, and callers take turns', async () => {
  const turns = new CallerTurns(3, 2);
  const started: string[] = [];
  const ends: Array<() => void> = [];
  const ask = async (key: string, name: string): Promise<void> =>
    await turns.run(key, async () => {
      started.push(name);
      await new Promise<void>((resolve) => ends.push(resolve));
    });
  const all = ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1'].map((name) => ask(name.charAt(0), name));
  expect(started).toEqual(['a1', 'a2', 'b1']);
  for (let ended = 0; ended < all.length; ended++) {
    ends.shift()?.();
    await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.all(all);
  expect(started).toEqual(['a1', 'a2', 'b1', 'a3', 'b2', 'c1', 'a4']);
});

test('a question that fails ends its turn', async () => {
  const turns = new CallerTurns(1, 1);
  await expect(turns.run('a', () => Promise.reject(new Error('failed')))).rejects.toThrow('failed');
  await expect(turns.run('a', () => Promise.resolve(7))).resolves.toBe(7);
});
