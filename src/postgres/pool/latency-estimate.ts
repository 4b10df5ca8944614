// How long a statement takes, estimated from its recent runs. The pool decides by it what may be pipelined behind what.

/** A quick statement can finish within this time, in milliseconds; on a busy machine even it takes longer at times. */
const QUICK_MS = 5;
/** Nothing is pipelined behind a statement with a higher mean. */
export const SLOW_MS = 100;

/** Latency in milliseconds, network round trip included. */
export class LatencyEstimate {
  #mean = 0;
  #longMean = 0;
  #best = Number.POSITIVE_INFINITY;

  get mean(): number {
    return this.#mean;
  }

  /** Mean of about the last hundred runs: what one run costs a connection, however its answers are batched. */
  get longMean(): number {
    return this.#longMean;
  }

  /** Quick enough to pipeline others behind it; false for a statement that never ran. */
  get isQuick(): boolean {
    return this.#best <= QUICK_MS && this.#mean <= SLOW_MS;
  }

  /**
   * `wasFirst`: no other statement was before it on its connection. Answers of pipelined statements arrive together, so
   * all but the first look quicker than they are and do not count for the best. Both means and the best drift, so one
   * slow run is forgotten after a few dozen quick ones.
   */
  record(ms: number, wasFirst: boolean): void {
    if (this.#best === Number.POSITIVE_INFINITY) {
      this.#mean = ms;
      this.#longMean = ms;
      this.#best = ms;
      return;
    }
    this.#mean += (ms - this.#mean) / 8;
    this.#longMean += (ms - this.#longMean) / 128;
    if (wasFirst) this.#best = Math.min(ms, this.#best + (ms - this.#best) / 64);
  }
}
