// Answers that must not tell whether an account exists take at least this long, whatever there was to do: the
// difference between one statement and ten disappears in it. Hashing is not counted; it is equal by itself.
const FLOOR_MS = 75;

/** Runs `work`; its answer and its refusal both come no earlier than the floor. */
export async function withMinimumDuration<T>(work: () => Promise<T>): Promise<T> {
  const startedAt = performance.now();
  try {
    return await work();
  } finally {
    const rest = FLOOR_MS - (performance.now() - startedAt);
    if (rest > 0) await new Promise((resolve) => setTimeout(resolve, rest));
  }
}
