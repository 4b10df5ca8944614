/** Ends a switch over a closed union: a new member becomes a compile error here. */
export function unreachable(value: never): never {
  throw new Error(`unreachable value ${JSON.stringify(value)}`);
}

/** Turns "cannot be absent here" into a fault with a name, instead of a `!`. */
export function must<T>(value: T | null | undefined, what: string): T {
  if (value === null || value === undefined) throw new Error(`${what} is missing`);
  return value;
}
