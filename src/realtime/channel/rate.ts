/** So many things in a time, with some that may come at once: a bucket that is filled evenly. */
export class Rate {
  readonly #now: () => number;
  #tokens = Number.POSITIVE_INFINITY;
  #filledAt = 0;

  /** `now` in milliseconds. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** True when one more is within `perSecond`, of which `burst` may come at once. Both may change at any time. */
  take(perSecond: number, burst: number): boolean {
    const now = this.#now();
    this.#tokens = Math.min(burst, this.#tokens + ((now - this.#filledAt) / 1000) * perSecond);
    this.#filledAt = now;
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }
}
