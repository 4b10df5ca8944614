// Who has written through this instance within a span of time: they read from the primary, which has what they wrote.

/** Beyond this many everybody counts as one who has written, until the span is over. */
const MOST = 100_000;

export class OwnWrites {
  readonly #spanMs: number;
  readonly #most: number;
  readonly #now: () => number;
  /** By writer, when it is over; in the order in which that happens. */
  readonly #until = new Map<string, number>();
  #everybodyUntil = 0;

  constructor(spanMs: number, { most = MOST, now = () => performance.now() } = {}) {
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
