import { expect, test } from 'vitest';
import { SerialQueue } from './serial-queue.ts';

test('work runs one at a time, in order', async () => {
  const queue = new SerialQueue();
  const events: string[] = [];
  const first = Promise.withResolvers<void>();
  const results = [
    queue.run(async () => {
      events.push('first begins');
      await first.promise;
      events.push('first ends');
      return 1;
    }),
    queue.run(() => {
      events.push('second');
      return 2;
    }),
  ];
  await Promise.resolve();
  expect(events).toEqual(['first begins']);
  first.resolve();
  expect(await Promise.all(results)).toEqual([1, 2]);
  expect(events).toEqual(['first begins', 'first ends', 'second']);
});

test('a failure reaches only its caller', async () => {
  const queue = new SerialQueue();
  const failing = queue.run(() => {
    throw new Error('no');
  });
  const next = queue.run(() => 'ran');
  await expect(failing).rejects.toThrow('no');
  expect(await next).toBe('ran');
});

test('idle waits for what was asked for, failed or not', async () => {
  const queue = new SerialQueue();
  let ended = false;
  const failing = queue.run(async () => {
    await new Promise((resolve) => setImmediate(resolve));
    ended = true;
    throw new Error('no');
  });
  await queue.idle();
  expect(ended).toBe(true);
  await expect(failing).rejects.toThrow('no');
});
