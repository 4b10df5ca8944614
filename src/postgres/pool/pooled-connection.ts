// A connection of the pool: the attempts on it, whether another may be pipelined behind them, and what a cancel may
// still hit.
import type { OpenWire } from '../connection.ts';
import type { Batch } from '../wire/wire.ts';
import type { Job } from './job.ts';
import { SLOW_MS } from './latency-estimate.ts';

/** A statement this many times slower than its mean holds up those behind it: they are hedged. */
const LATE_FACTOR = 8;
const MIN_LATE_MS = 50;
/** For this long after a cancel, a cancelled statement may not be the one the cancel was meant for. */
const CANCEL_SHADOW_MS = 5_000;

/** One run of a job on a connection. */
export class Attempt {
  readonly job: Job;
  readonly connection: PooledConnection;
  /** Others may be pipelined behind it. */
  readonly isQuick: boolean;
  /** Nothing was before it on its connection. */
  readonly isFirst: boolean;
  batch: Batch | undefined;
  /** `performance.now()`; 0 while it is wanted. */
  cancelledAt = 0;
  /** A second attempt was started because the statement before this one takes long. */
  isHedged = false;

  constructor(job: Job, connection: PooledConnection) {
    this.job = job;
    this.connection = connection;
    this.isQuick = job.isPipelinable && job.latency.isQuick;
    this.isFirst = connection.attempts.length === 0;
  }

  get isCancelled(): boolean {
    return this.cancelledAt > 0;
  }

  /** `performance.now()` when the server began with it; 0 before that. */
  get startedAt(): number {
    return this.batch?.startedAt ?? 0;
  }

  /**
   * Has run for much longer than usual. "Usual" follows the present load: where everything is slow because there is too
   * much to do, running things twice would only add to it.
   */
  isLate(now: number): boolean {
    if (this.startedAt === 0) return false;
    const usual = Math.min(LATE_FACTOR * this.job.latency.mean, SLOW_MS);
    return now - this.startedAt > Math.max(usual, MIN_LATE_MS);
  }

  /**
   * Cancels only the statement that runs: behind others, a cancel would hit somebody else's statement. The pool repeats
   * the cancel, because one that arrives before the statement has no effect.
   */
  cancel(): void {
    if (!this.isCancelled) this.cancelledAt = performance.now();
    if (this.connection.attempts[0] === this) this.connection.cancel();
  }
}

export class PooledConnection {
  readonly wire: OpenWire['wire'];
  readonly #cancel: (onSeen: () => void) => void;
  readonly #attempts: Attempt[] = [];
  idleSince = 0;
  /** `performance.now()` when the caller that has it exclusively left; 0 before that. */
  #abandonedAt = 0;
  #received = 0;
  #silentChecks = 0;
  /** Cancels on their way: the server must have seen them before anybody else's statement runs. */
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

  /** Whether a statement that was cancelled here may have been hit by a cancel meant for another. */
  get wasCancelled(): boolean {
    return this.isCancelling || performance.now() - this.#cancelledAt < CANCEL_SHADOW_MS;
  }

  /** Whether the job may be pipelined here. Only the last attempt can be slow: nothing is pipelined behind a slow one. */
  admits(job: Job, now: number): boolean {
    const { wire } = this;
    const attempts = this.#attempts;
    const first = attempts[0];
    if (!first || !attempts.at(-1)?.isQuick || first.isLate(now)) return false;
    return wire.usable && !this.isCancelling && wire.knowsNames(job.statements);
  }

  /**
   * Whether the running statements should have ended: `graceMs` past their deadline, or past their cancel, which is
   * repeated until it has an effect. Counts the checks since when nothing has arrived.
   */
  isOverdue(now: number, statementTimeoutMs: number, graceMs: number): boolean {
    const { busy, received } = this.wire;
    const isOverdue = busy !== undefined && this.#isPastDeadline(busy, now, statementTimeoutMs, graceMs);
    this.#silentChecks = isOverdue && received === this.#received ? this.#silentChecks + 1 : 0;
    this.#received = received;
    return isOverdue;
  }

  get silentChecks(): number {
    return this.#silentChecks;
  }

  #isPastDeadline(busy: Batch, now: number, statementTimeoutMs: number, graceMs: number): boolean {
    const { statements, startedAt } = busy;
    // The first statement makes the settings and takes no time.
    const deadline = statementTimeoutMs * Math.max(1, statements.length - 1);
    if (statementTimeoutMs > 0 && now - startedAt > deadline + graceMs) return true;
    const [first] = this.#attempts;
    const cancelledAt = first === undefined ? this.#abandonedAt : first.cancelledAt;
    if (cancelledAt === 0) return false;
    if (!this.isCancelling) this.cancel();
    return now - Math.max(cancelledAt, startedAt) > graceMs;
  }

  /** The caller that has this connection exclusively has left. */
  abandon(): void {
    this.#abandonedAt = performance.now();
    if (this.wire.busy) this.cancel();
  }

  /** Ends whatever the server is running for this connection now. */
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

  /** Its caller has returned it. */
  free(): void {
    this.#abandonedAt = 0;
  }

  /** Calls `then` once the server has seen all cancels that are on their way. */
  afterCancel(then: () => void): void {
    this.#onCancelled = then;
  }
}
