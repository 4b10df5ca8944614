// Decides when a connection can be opened. If the server refuses another one, its limit is reached: the pool works
// with its connections and retries occasionally. If none is open, one attempt at a time detects when the database is
// back (docs/decisions/0089).

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

  /** `performance.now()` of the next possible attempt; undefined if attempts are not limited. */
  get nextAt(): number | undefined {
    return this.#state === 'good' ? undefined : this.#nextAt;
  }

  /** Maximum number of open connections, as far as the server is known to allow them. */
  get limit(): number {
    return this.#state === 'ceiling' ? this.#ceiling : this.#max;
  }

  get isAway(): boolean {
    return this.#state === 'away';
  }

  /** Time since when nothing can be opened and no connection is open. */
  get awaySince(): number | undefined {
    return this.#awaySince;
  }

  /** Why the last attempt failed. */
  get lastError(): unknown {
    return this.#lastError;
  }

  canStart(open: number): boolean {
    const size = open + this.#underWay;
    if (size >= this.#max) return false;
    if (this.#state === 'good' || (this.#state === 'ceiling' && size < this.#ceiling)) return true;
    return this.#underWay === 0 && performance.now() >= this.#nextAt;
  }

  started(): void {
    this.#underWay += 1;
  }

  /** `open`: number of connections, including the new one. */
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
    // Attempts that ran at the same time count as one failure.
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

  /** Connections died silently: one attempt decides whether the server is reachable. */
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
