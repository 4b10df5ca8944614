// Holds and retries the product's statements while the database is away, by the same table as requests
// (pool/failure/after-failure.ts). One waiting statement probes the server on behalf of all.
import { setTimeout as pause } from 'node:timers/promises';
import { Backoff } from '../../lib/limits/backoff.ts';
import { databaseFailure, DatabaseUnavailable, isDatabaseError, NeverSent } from '../pg-error.ts';
import { afterFailure, toCaller } from '../pool/failure/after-failure.ts';

export type HoldSettings = {
  /** How long a statement waits, in milliseconds. */
  readonly waitMs: number;
  /** Whether a connection can be had; throws when not. */
  readonly reach: () => Promise<void>;
  /** Checks whether the server that refused a write is a standby, and closes its connections if so. */
  readonly leaveStandby: () => Promise<boolean>;
};

const ASK_AGAIN_MS = 250;

export class FailoverRetry {
  readonly #settings: HoldSettings;
  /** Resolves when a connection is available again; undefined if none is known to be missing. */
  #away: Promise<void> | undefined;
  #waiting = 0;
  #lastError: unknown;

  constructor(settings: HoldSettings) {
    this.#settings = settings;
  }

  /**
   * Runs `work` until it succeeds, or fails with an error for the caller. `isRead`: it can run twice. @throws
   * DatabaseUnavailable nothing was done; OutcomeUnknown for a write that may have committed.
   */
  async run<T>(isRead: boolean, work: () => Promise<T>): Promise<T> {
    let failingSince: number | undefined;
    for (let failures = 0; ;) {
      const startedAt = performance.now();
      if (this.#away) await this.#untilReached((failingSince ?? startedAt) + this.#settings.waitMs);
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof Error) || isPoolBusy(error)) throw error;
        const isNeverSent = error instanceof NeverSent;
        failingSince ??= isNeverSent ? startedAt : performance.now();
        if (!isNeverSent) failures += 1;
        const next = afterFailure({
          error,
          isRead,
          failures,
          isAboutName: false,
          isNameless: true,
          isInTime: performance.now() - failingSince < this.#settings.waitMs,
        });
        // A silent server has already used up the waiting time.
        if (next === 'answer' || error.name === 'StatementSilent') throw toCaller(error, isRead);
        if (next === 'ask') {
          if (!(await this.#settings.leaveStandby().catch(() => true))) throw error;
          await pause(ASK_AGAIN_MS);
        } else if (isNeverSent) {
          this.#lastError = error;
          this.#away ??= this.#watch();
        }
      }
    }
  }

  async #untilReached(until: number): Promise<void> {
    const clock = new AbortController();
    this.#waiting += 1;
    try {
      const isOver = pause(Math.max(0, until - performance.now()), 'over' as const, { signal: clock.signal });
      isOver.catch(() => {});
      if ((await Promise.race([this.#away, isOver])) === 'over')
        throw new DatabaseUnavailable(this.#lastError);
    } finally {
      this.#waiting -= 1;
      clock.abort();
    }
  }

  async #watch(): Promise<void> {
    try {
      const backoff = new Backoff({ minMs: 50, maxMs: 500 });
      for (;;) {
        await pause(backoff.next());
        // The next statement tries for itself.
        if (this.#waiting === 0) return;
        try {
          await this.#settings.reach();
          return;
        } catch (error) {
          this.#lastError = error;
        }
      }
    } finally {
      this.#away = undefined;
    }
  }
}

/** Whether all connections are in use. This does not mean that the database is away. */
function isPoolBusy(error: Error): boolean {
  return !(error instanceof NeverSent) && !isDatabaseError(error) && databaseFailure(error)?.kind === 'busy';
}
