// A connection of the pool: who works on it, who may stand behind them, and what a cancel may still hit.
import type { OpenWire } from './connection.ts';
import type { Attempt, Job } from './job.ts';

/** How long after a cancel a cancelled statement may be one that it was not meant for. */
const CANCEL_SHADOW_MS = 5_000;

export class PooledConnection {
  readonly wire: OpenWire['wire'];
  readonly #cancel: (onSeen: () => void) => void;
  readonly #attempts: Attempt[] = [];
  idleSince = 0;
  /** Cancels on their way. The server has to have seen them before anybody else's statement runs. */
  #cancels = 0;
  #cancelledAt = Number.NEGATIVE_INFINITY;
  #onCancelled: (() => void) | undefined;

  constructor(opened: OpenWire) {
    this.wire = opened.wire;
    this.#cancel = (onSeen) => opened.cancel(onSeen);
  }

  /** In the order in which they were sent. */
  get attempts(): readonly Attempt[] {
    return this.#attempts;
  }

  add(attempt: Attempt): void {
    this.#attempts.push(attempt);
  }

  remove(attempt: Attempt): void {
    this.#attempts.splice(this.#attempts.indexOf(attempt), 1);
  }

  get isCancelling(): boolean {
    return this.#cancels > 0;
  }

  /** A statement that was cancelled here may not be the one that was meant. */
  get wasCancelled(): boolean {
    return this.isCancelling || performance.now() - this.#cancelledAt < CANCEL_SHADOW_MS;
  }

  /** Whether the job may stand behind those that are here. Only the last can be slow: nothing was let in behind it. */
  admits(job: Job, now: number): boolean {
    const { wire } = this;
    const attempts = this.#attempts;
    const first = attempts[0];
    if (!first || !attempts.at(-1)?.isQuick || first.isLate(now)) return false;
    return wire.usable && !this.isCancelling && wire.knowsNames(job.statements);
  }

  /** Ends what the server is doing for this connection now. */
  cancel(): void {
    this.#cancels += 1;
    this.#cancel(() => {
      this.#cancels -= 1;
      this.#cancelledAt = performance.now();
      if (this.#cancels > 0) return;
      const then = this.#onCancelled;
      this.#onCancelled = undefined;
      then?.();
    });
  }

  /** `then` once the server has seen the cancels that are on their way. */
  afterCancel(then: () => void): void {
    this.#onCancelled = then;
  }
}
