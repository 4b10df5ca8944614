// The refusals of requests for which there is no room now.
import { Problem } from './problem.ts';

const MAX_SECONDS = 30;

/** Before it was begun. `seconds`: when there may be room. */
export const overloaded = (seconds = 1): Problem<'overloaded'> =>
  new Problem('overloaded', 503, 'Too many requests are waiting', {
    hint: 'Nothing was done: send it again after the time in Retry-After.',
    headers: { 'retry-after': String(Math.min(MAX_SECONDS, Math.max(1, Math.ceil(seconds)))) },
  });

/** While its answer was built. */
export const noRoomForAnswer = (): Problem<'no_room_for_answer'> =>
  new Problem('no_room_for_answer', 503, 'There is no room for this answer now', {
    hint: 'Ask for fewer rows or columns, or try again later; server.response_budget is the limit.',
    headers: { 'retry-after': '1' },
  });
