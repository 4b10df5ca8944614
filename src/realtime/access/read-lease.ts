// How long an answer about what a channel may hear is trusted. Policies look at rows, and may call functions that look at
// anything: nothing tells when their answer changes. So they are asked again when there is something to hear: in the
// background while messages come, and before the first one after a pause. A channel that hears nothing asks nothing.

/** A database that does not answer takes nobody's right: the last answer is kept. */
const OVERDUE_MS = 1_000;

export type ReadLeaseOptions = {
  /** How long an answer is trusted now, in milliseconds. */
  readonly lengthMs: () => number;
  /** Asks again. False when the channel was closed because of the answer. */
  readonly ask: () => Promise<boolean>;
};

export class ReadLease {
  readonly #options: ReadLeaseOptions;
  /** By `performance.now()`. */
  #askedAt = performance.now();
  #isAsking = false;
  /** What waits for an answer, in its order. */
  #held: Array<() => void> | undefined;
  #overdue: NodeJS.Timeout | undefined;

  constructor(options: ReadLeaseOptions) {
    this.#options = options;
  }

  /** Sends at once, after the answer, or never. */
  hear(send: () => void): void {
    if (this.#held) {
      this.#held.push(send);
      return;
    }
    const age = performance.now() - this.#askedAt;
    const lengthMs = this.#options.lengthMs();
    if (age < lengthMs) {
      send();
      if (age > lengthMs / 2) void this.#ask();
      return;
    }
    this.#held = [send];
    this.#overdue = setTimeout(() => this.#answered(performance.now()), OVERDUE_MS).unref();
    void this.#ask();
  }

  close(): void {
    clearTimeout(this.#overdue);
    this.#held = undefined;
  }

  async #ask(): Promise<void> {
    if (this.#isAsking) return;
    this.#isAsking = true;
    const askedAt = performance.now();
    try {
      if (await this.#options.ask()) this.#answered(askedAt);
      else this.close();
    } catch {
      this.#answered(performance.now());
    } finally {
      this.#isAsking = false;
    }
  }

  #answered(askedAt: number): void {
    clearTimeout(this.#overdue);
    this.#askedAt = askedAt;
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const send of held) send();
  }
}
