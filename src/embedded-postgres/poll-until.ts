import { setTimeout as delay } from 'node:timers/promises';

/** Polls until there is a result; undefined after the timeout. */
export async function pollUntil<T>(
  timeoutMs: number,
  check: () => Promise<T | undefined>,
  intervalMs = 10,
): Promise<T | undefined> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const result = await check();
    if (result !== undefined) return result;
    if (performance.now() >= deadline) return undefined;
    await delay(intervalMs);
  }
}
