// The refusal of a request for which there is no room now: before it was begun, so that it may be sent again.
import { Problem } from './problem.ts';

const LONGEST_SECONDS = 30;

/** `seconds`: when there may be room. */
export const overloaded = (seconds = 1): Problem<'overloaded'> =>
  new Problem('overloaded', 503, 'Too many requests are waiting', {
    hint: 'Nothing was done: send it again after the time in Retry-After.',
    headers: { 'retry-after': String(Math.min(LONGEST_SECONDS, Math.max(1, Math.ceil(seconds)))) },
  });
