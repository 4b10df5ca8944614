// Ban durations in Go's notation (`1h30m`, `876000h`), with days, and `none`.
import { problems } from '../problem.ts';

const UNIT_MS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

const PART = /(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h|d)/gy;
/** Later dates are out of range in JavaScript or PostgreSQL. */
const FOREVER = Date.UTC(9999, 0, 1);

/** Returns the end of the ban. Null lifts the ban. */
export function parseBan(text: string, now: Date): Date | null {
  if (text === 'none') return null;
  const sign = text.startsWith('-') ? -1 : 1;
  const digits = text.replace(/^[+-]/, '');
  if (digits === '0') return null;
  let total = 0;
  let position = 0;
  for (const match of digits.matchAll(PART)) {
    total += Number(match[1]) * (UNIT_MS[match[2] ?? ''] ?? 0);
    position = match.index + match[0].length;
  }
  if (digits === '' || position !== digits.length) {
    throw problems.validationFailed('invalid format for ban duration: use none or a duration such as 24h');
  }
  if (total === 0) return null;
  return new Date(Math.min(now.getTime() + sign * total, FOREVER));
}
