// Reasons why a running service works only partly. `/ready` shows them without failing.

export type DegradedReason = {
  /** Identifier of the cause for programs, in snake_case. */
  readonly code: string;
  /** Description for operators: the problem and its remedy, in one sentence without secrets. */
  readonly reason: string;
};

export class Degraded {
  readonly #watched = new Map<string, () => string | undefined>();

  /**
   * `reason` is called for each response, so it must be cheap and synchronous; undefined means no problem. Returns a
   * function that removes the entry.
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
