// Places for values that do not come from the query string; its own values have slots from 0 on.
import type { Slot } from './query.ts';

export const BODY: Slot = -1;
export const LIMIT: Slot = -2;
export const OFFSET: Slot = -3;
/** The body's fields, each a parameter of its own: `FIELD - n` is the n-th argument. */
export const FIELD: Slot = -100;
