// When a connection may be opened. Where the server refuses one more, that is its ceiling: the pool works with what it
// has and asks now and then whether there is room. Where nothing is open, one attempt at a time finds out when the
// database is back (docs/decisions/0089).

const MIN_CEILING_WAIT_MS = 1_000;
const MAX_CEILING_WAIT_MS = 60_000;
const MIN_AWAY_WAIT_MS = 50;
const MAX_AWAY_WAIT_MS = 1_000;

export class Openings {
  readonly #max: number;
  #state: 'good' | 'ceiling' | 'away' = 'good';
  #underWay = 0;
  /** Most connections that the server has let be open. */
  #ceiling: number;
  /** Failures in a row. */
  #failures = 0;
  #failedAt = Number.NEGATIVE_INFINITY;
  #nextAt = 0;
  #awaySince: number | undefined;
  #lastError: unknown;

  constructor(max: number) {
    this.#max = max;
    this.#ceiling = max;
  }

  get underWay(): number {
    return this.#underWay;
  }

  /** `performance.now()` when the next attempt may be made; undefined when nothing stands against one. */
  get nextAt(): number | undefined {
    return this.#state === 'good' ? undefined : this.#nextAt;
  }

  get isAway(): boolean {
    return this.#state === 'away';
  }

  /** Since when it has been known that nothing can be opened, with nothing open. */
  get awaySince(): number | undefined {
    return this.#awaySince;
  }

  /** Why the last attempt failed. */
  get lastError(): unknown {
    return this.#lastError;
  }

  mayStart(open: number): boolean {
    const size = open + this.#underWay;
    if (size >= this.#max) return false;
    if (this.#state === 'good' || (this.#state === 'ceiling' && size < this.#ceiling)) return true;
    return this.#underWay === 0 && performance.now() >= this.#nextAt;
  }

  started(): void {
    this.#underWay += 1;
  }

  /** `open` counts the new one. */
  succeeded(open: number): void {
    this.#underWay -= 1;
    this.#awaySince = undefined;
    if (this.#state === 'away') this.#state = 'good';
    else if (this.#state === 'ceiling' && open > this.#ceiling) {
      this.#ceiling = open;
      this.#nextAt = 0;
    } else return;
    this.#failures = 0;
    if (this.#ceiling >= this.#max) this.#state = 'good';
  }

  failed(open: number, startedAt: number, error: unknown): void {
    this.#lastError = error;
    const now = performance.now();
    this.#underWay -= 1;
    // Those that were under way together have one answer.
    if (startedAt > this.#failedAt) this.#failures += 1;
    this.#failedAt = now;
    if (open > 0) {
      this.#state = 'ceiling';
      this.#ceiling = open;
      this.#awaySince = undefined;
      this.#nextAt = now + this.#wait(MIN_CEILING_WAIT_MS, MAX_CEILING_WAIT_MS);
    } else {
      if (this.#state === 'ceiling') this.#failures = 1;
      this.#state = 'away';
      this.#ceiling = this.#max;
      this.#awaySince ??= now;
      this.#nextAt = now + this.#wait(MIN_AWAY_WAIT_MS, MAX_AWAY_WAIT_MS);
    }
  }

  /** Connections have died without a word: one attempt decides whether there is somebody to talk to. */
  suspect(): void {
    if (this.#state === 'away') return;
    this.#state = 'away';
    this.#failures = 0;
    this.#nextAt = 0;
  }

  #wait(least: number, most: number): number {
    return Math.min(least * 2 ** (this.#failures - 1), most);
  }
}
