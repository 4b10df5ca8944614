// Slots of values that do not come from the query string, whose own slots start at 0.
import type { Slot } from './query.ts';

export const BODY: Slot = -1;
export const LIMIT: Slot = -2;
export const OFFSET: Slot = -3;
/** The body's fields, each a parameter of its own: `FIELD - n` is the n-th argument. */
export const FIELD: Slot = -100;
