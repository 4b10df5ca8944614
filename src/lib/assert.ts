/** Ends a switch over a closed union, so that a new member causes a compile error. */
export function unreachable(value: never): never {
  throw new Error(`unreachable value ${JSON.stringify(value)}`);
}

/** Throws an error with a name if the value is absent, instead of a `!`. */
export function must<T>(value: T | null | undefined, label: string): T {
  if (value === null || value === undefined) throw new Error(`${label} is missing`);
  return value;
}
