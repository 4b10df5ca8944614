// Checks the read right of a private channel again when messages are delivered. Policies read rows and call functions,
// so nothing signals when a right changes. While messages arrive, the check runs in the background. After a pause, the
// first message waits for the check. A channel without messages causes no checks.

/** A database that does not respond removes no right. The last answer stays valid. */
const MAX_CHECK_MS = 1_000;

export type AccessLeaseOptions = {
  /** Returns the validity of an answer, in milliseconds. */
  readonly lengthMs: () => number;
  /** Checks the right. Resolves to false when the check has closed the channel. */
  readonly checkRights: () => Promise<boolean>;
};

export class AccessLease {
  readonly #options: AccessLeaseOptions;
  /** Time of the last check, by `performance.now()`. */
  #checkedAt = performance.now();
  #isChecking = false;
  /** Messages that wait for a check, in their order. */
  #queue: Array<() => void> | undefined;
  #overdue: NodeJS.Timeout | undefined;

  constructor(options: AccessLeaseOptions) {
    this.#options = options;
  }

  /** Sends at once, after a check, or not at all. */
  deliver(send: () => void): void {
    if (this.#queue) {
      this.#queue.push(send);
      return;
    }
    const age = performance.now() - this.#checkedAt;
    const lengthMs = this.#options.lengthMs();
    if (age < lengthMs) {
      send();
      if (age > lengthMs / 2) void this.#checkRights();
      return;
    }
    this.#queue = [send];
    this.#overdue = setTimeout(() => this.#settle(performance.now()), MAX_CHECK_MS).unref();
    void this.#checkRights();
  }

  close(): void {
    clearTimeout(this.#overdue);
    this.#queue = undefined;
  }

  async #checkRights(): Promise<void> {
    if (this.#isChecking) return;
    this.#isChecking = true;
    const checkedAt = performance.now();
    try {
      if (await this.#options.checkRights()) this.#settle(checkedAt);
      else this.close();
    } catch {
      this.#settle(performance.now());
    } finally {
      this.#isChecking = false;
    }
  }

  #settle(askedAt: number): void {
    clearTimeout(this.#overdue);
    this.#checkedAt = askedAt;
    const queue = this.#queue ?? [];
    this.#queue = undefined;
    for (const send of queue) send();
  }
}
