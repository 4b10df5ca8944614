// The product's own statements while the database is away: held and tried again by the table that requests have
// (pool/failure/after-failure.ts). One of those that wait finds out for all when there is somebody to talk to again.
import { setTimeout as pause } from 'node:timers/promises';
import { databaseFailure, DatabaseUnavailable, isDatabaseError, NeverSent } from '../pg-error.ts';
import { afterFailure, toCaller } from '../pool/failure/after-failure.ts';

export type HoldSettings = {
  /** How long a statement is held, in milliseconds. */
  readonly waitMs: number;
  /** Whether a connection can be had; throws when not. */
  readonly reach: () => Promise<void>;
  /** Whether the server that refused a write is a standby: its connections are given up then. */
  readonly leaveStandby: () => Promise<boolean>;
};

const SHORTEST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 500;
const ASK_AGAIN_MS = 250;

export class FailoverHold {
  readonly #settings: HoldSettings;
  /** Resolves when a connection can be had again; undefined while nothing is known against it. */
  #away: Promise<void> | undefined;
  #waiting = 0;
  #lastError: unknown;

  constructor(settings: HoldSettings) {
    this.#settings = settings;
  }

  /**
   * Runs `work` until it succeeds, or fails in a way that is for the caller. `isRead`: it may run twice.
   * @throws DatabaseUnavailable nothing was done; OutcomeUnknown for a write that may have been.
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
        // A server that fell silent has used up the time that anybody waits.
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
      for (let ms = SHORTEST_PAUSE_MS; ; ms = Math.min(ms * 2, LONGEST_PAUSE_MS)) {
        await pause(ms);
        // The next who comes tries for itself.
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

/** All connections are in use, which says nothing about the database. */
function isPoolBusy(error: Error): boolean {
  return !(error instanceof NeverSent) && !isDatabaseError(error) && databaseFailure(error)?.kind === 'busy';
}
