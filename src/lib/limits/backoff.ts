// Pauses between retries. Each pause is twice as long as the one before, up to a maximum.

export type BackoffOptions = {
  /** First pause, in milliseconds. */
  readonly minMs: number;
  /** Longest pause, in milliseconds. */
  readonly maxMs: number;
  /** Multiplies each pause by a random factor from 0.5 to 1.5, so that callers do not retry at the same time. */
  readonly jitter?: boolean;
  /** The first attempt follows without a pause; `minMs` is the second pause. */
  readonly immediate?: boolean;
};

export class Backoff {
  readonly #options: BackoffOptions;
  #nextMs: number;
  #isFirst = true;

  constructor(options: BackoffOptions) {
    this.#options = options;
    this.#nextMs = options.minMs;
  }

  /** Returns the pause before the next attempt, in milliseconds. */
  next(): number {
    const { maxMs, jitter = false, immediate = false } = this.#options;
    const isFirst = this.#isFirst;
    this.#isFirst = false;
    if (immediate && isFirst) return 0;
    const pause = this.#nextMs;
    this.#nextMs = Math.min(pause * 2, maxMs);
    return jitter ? pause * (0.5 + Math.random()) : pause;
  }

  /** Begins again with the first pause, after a success. */
  reset(): void {
    this.#nextMs = this.#options.minMs;
    this.#isFirst = true;
  }
}
