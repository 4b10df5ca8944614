// Why a service that serves does so worse than it should: what `/ready` shows, and never turns red for.

export type DegradedReason = {
  /** For programs, in snake_case; one for each cause. */
  readonly code: string;
  /** For operators: what is wrong and what to do, in one sentence without secrets. */
  readonly reason: string;
};

export class Degraded {
  readonly #watched = new Map<string, () => string | undefined>();

  /**
   * `reason` is called for each answer, so it must be cheap and not wait; undefined says that all is well. Returns what
   * removes it.
   */
  watch(code: string, reason: () => string | undefined): () => void {
    this.#watched.set(code, reason);
    return () => {
      if (this.#watched.get(code) === reason) this.#watched.delete(code);
    };
  }

  /** Holds until `clear`. */
  report(code: string, reason: string): void {
    this.watch(code, () => reason);
  }

  clear(code: string): void {
    this.#watched.delete(code);
  }

  get reasons(): DegradedReason[] {
    return Array.from(this.#watched).flatMap(([code, ask]) => {
      const reason = ask();
      return reason === undefined ? [] : [{ code, reason }];
    });
  }
}
