// One thing that must hold for `/ready`. It counts as bad when it has failed for a while without a break, and as good
// after one success: a moment without the database must not empty a load balancer.

export type CheckState = 'good' | 'failing' | 'bad';

export class Check {
  readonly #patienceMs: number;
  readonly #now: () => number;
  #failingSince: number | undefined;
  #reason: string | undefined;

  constructor(patienceMs: number, now: () => number = () => performance.now()) {
    this.#patienceMs = patienceMs;
    this.#now = now;
  }

  passed(): void {
    this.#failingSince = undefined;
    this.#reason = undefined;
  }

  /** `reason` is for operators; `since` is when the attempt that failed began. */
  failed(reason: string, since: number = this.#now()): void {
    this.#failingSince ??= since;
    this.#reason = reason;
  }

  get state(): CheckState {
    if (this.#failingSince === undefined) return 'good';
    return this.#now() - this.#failingSince >= this.#patienceMs ? 'bad' : 'failing';
  }

  /** Why it fails now. */
  get reason(): string | undefined {
    return this.#reason;
  }
}
