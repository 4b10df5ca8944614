// How long a worker that has ended by itself is not started again.
const DELAYS_MS = [0, 500, 1_000, 2_000, 5_000, 10_000, 30_000];
const LAST = 60_000;
/** After this the ones before do not count any more. */
const HEALTHY_MS = 60_000;

export class RestartDelay {
  #restarts = 0;

  /** `servedMs`: how long it has served; 0 if it never did. */
  next(servedMs: number): number {
    if (servedMs >= HEALTHY_MS) this.#restarts = 0;
    return DELAYS_MS[this.#restarts++] ?? LAST;
  }
}
