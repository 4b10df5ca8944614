import { setTimeout as delay } from 'node:timers/promises';

/** Asks again and again until there is an answer; undefined when the time is over. */
export async function until<T>(
  withinMs: number,
  look: () => Promise<T | undefined>,
  everyMs = 10,
): Promise<T | undefined> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const answer = await look();
    if (answer !== undefined) return answer;
    if (performance.now() >= deadline) return undefined;
    await delay(everyMs);
  }
}
