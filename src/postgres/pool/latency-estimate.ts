// Estimates the duration of a statement from its recent runs. The pool uses it to decide about pipelining.

/** A quick statement can finish within this time, in milliseconds. On a busy machine it sometimes takes longer. */
const QUICK_MS = 5;
/** Maximum mean latency of a statement behind which reads are pipelined. */
export const SLOW_MS = 100;

/** Latency in milliseconds, network round trip included. */
export class LatencyEstimate {
  #mean = 0;
  #longMean = 0;
  #best = Number.POSITIVE_INFINITY;

  get mean(): number {
    return this.#mean;
  }

  /** Mean of about the last hundred runs: the cost of a run for a connection, however its responses are batched. */
  get longMean(): number {
    return this.#longMean;
  }

  /** Whether other statements can be pipelined behind this one; false if it never ran. */
  get isQuick(): boolean {
    return this.#best <= QUICK_MS && this.#mean <= SLOW_MS;
  }

  /**
   * Records a run. `wasFirst`: no other statement was before it on its connection. Responses of pipelined statements
   * arrive together, so all but the first appear too quick and do not count for the minimum. The means and the
   * minimum drift, so the effect of a slow run ends after a few dozen quick ones.
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
