// Responses that must not reveal whether an account exists take at least this long, which hides the difference between
// one statement and ten. Hashing takes constant time anyway and runs outside.
const FLOOR_MS = 75;

/** Runs `work` and settles, with its result or its error, no earlier than the minimum. */
export async function withMinimumDuration<T>(work: () => Promise<T>): Promise<T> {
  const startedAt = performance.now();
  try {
    return await work();
  } finally {
    const rest = FLOOR_MS - (performance.now() - startedAt);
    if (rest > 0) await new Promise((resolve) => setTimeout(resolve, rest));
  }
}
