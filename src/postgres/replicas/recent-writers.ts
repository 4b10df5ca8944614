// Callers that have written through this instance recently. They read from the primary, which has their writes.

/** Maximum number of writers. Above it, every caller counts as a recent writer until the span ends. */
const MAX_WRITERS = 100_000;

export class RecentWriters {
  readonly #spanMs: number;
  readonly #most: number;
  readonly #now: () => number;
  /** Expiry times keyed by writer, in order of expiry. */
  readonly #until = new Map<string, number>();
  #everybodyUntil = 0;

  constructor(spanMs: number, { most = MAX_WRITERS, now = () => performance.now() } = {}) {
    this.#spanMs = spanMs;
    this.#most = most;
    this.#now = now;
  }

  note(writer: string): void {
    const now = this.#now();
    this.#until.delete(writer);
    this.#until.set(writer, now + this.#spanMs);
    for (const [one, until] of this.#until) {
      if (until > now) break;
      this.#until.delete(one);
    }
    if (this.#until.size <= this.#most) return;
    this.#until.clear();
    this.#everybodyUntil = now + this.#spanMs;
  }

  has(writer: string): boolean {
    const now = this.#now();
    return now < this.#everybodyUntil || now < (this.#until.get(writer) ?? 0);
  }
}
