// Number of rounds of repeating tests. SVC_TEST_LONG=1 runs all rounds, SVC_TEST_LONG=2/6 the second of six parts, each
// with its own seeds.

const [part = 0, parts = 1] = (process.env['SVC_TEST_LONG'] ?? '').split('/').filter(Boolean).map(Number);

/** Part of the long rounds that runs, from 0. */
export const LONG_PART = Math.max(0, part - 1);

/**
 * Rounds of a repeating test: `short` in `npm test`, `long` in a full run, and otherwise a part of `long`. The
 * environment variable of the test, if it has one, takes precedence.
 */
export function rounds(short: number, long: number, variable?: string): number {
  const given = variable === undefined ? undefined : process.env[variable];
  if (given !== undefined) return Number(given);
  if (part === 0) return short;
  // A part uses the short form of a stride, for which a smaller number means more work.
  return long < short ? (parts > 1 ? short : long) : Math.max(short, Math.ceil(long / parts));
}

/** First seed of this part. No two parts share a seed if a round uses one seed and `long` counts the rounds. */
export function firstSeed(seed: number, long: number, variable: string): number {
  return Number(process.env[variable] ?? seed + LONG_PART * Math.ceil(long / parts));
}
