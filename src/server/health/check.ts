// One condition of `/ready`. It is bad after it has failed for a while without a break, and good after one success: a
// short database outage must not remove the instance from a load balancer.

export type CheckState = 'good' | 'failing' | 'bad';

export class Check {
  readonly #toleranceMs: number;
  readonly #now: () => number;
  #failingSince: number | undefined;
  #reason: string | undefined;

  constructor(toleranceMs: number, now: () => number = () => performance.now()) {
    this.#toleranceMs = toleranceMs;
    this.#now = now;
  }

  passed(): void {
    this.#failingSince = undefined;
    this.#reason = undefined;
  }

  /** Records a failure. `reason` is for operators; `since` is the start of the failed attempt. */
  failed(reason: string, since: number = this.#now()): void {
    this.#failingSince ??= since;
    this.#reason = reason;
  }

  get state(): CheckState {
    if (this.#failingSince === undefined) return 'good';
    return this.#now() - this.#failingSince >= this.#toleranceMs ? 'bad' : 'failing';
  }

  /** Reason of the current failure. */
  get reason(): string | undefined {
    return this.#reason;
  }
}
