/** Splits a list in two parts, the first of which has the odd item. */
export function halves<T>(all: readonly T[]): [readonly T[], readonly T[]] {
  const middle = Math.ceil(all.length / 2);
  return [all.slice(0, middle), all.slice(middle)];
}
