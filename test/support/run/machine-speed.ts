// Measures how slow this machine is now. Time limits of tests are multiplied by it, so that a slow machine
// fails no test.

/** Milliseconds that the work below takes on an idle machine of the kind that CI uses. */
const REFERENCE_MS = 110;
const ROUNDS = 60_000_000;
const MAX_FACTOR = 8;

/** 1 on an idle machine, 2 if a fixed amount of CPU work takes twice as long; at most 8. */
export function measureSlowness(): number {
  const startedAt = performance.now();
  let state = 1;
  for (let i = 0; i < ROUNDS; i++) state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
  // The condition is never true. It keeps the loop from being optimized away.
  if (state === 0.5) throw new Error('unreachable');
  const factor = (performance.now() - startedAt) / REFERENCE_MS;
  return Math.min(MAX_FACTOR, Math.max(1, Math.round(factor * 10) / 10));
}
