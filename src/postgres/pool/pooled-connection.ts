// A connection of the pool, with its attempts. Decides whether another one can be pipelined behind them, and which
// statements a cancel may still hit.
import type { OpenWire } from '../connection.ts';
import type { Batch } from '../wire/wire.ts';
import type { Holder, Job } from './job.ts';
import { SLOW_MS } from './latency-estimate.ts';

/** A statement this many times slower than its mean delays those behind it, so they are hedged. */
const LATE_FACTOR = 8;
const MIN_LATE_MS = 50;
/** How long after a cancel a cancelled statement may be a different one than intended. */
const CANCEL_SHADOW_MS = 5_000;
/** Grace period after the deadline or the cancel of a statement for the server to report its end. */
const GRACE_MS = 2_000;
/** How long one caller may hold a connection exclusively. */
const MAX_HELD_MS = 30_000;
/**
 * An overdue connection is dead after this many successive checks without a byte. More than one, because after a
 * stall of this process, a check runs before received bytes are read.
 */
const MAX_SILENT_CHECKS = 2;
/** The last part of the grace period, for the checks without a byte. */
const CHECKING_MS = 500;
/** Approximate maximum age of a connection, so that changed names and new hosts take effect. */
const MAX_AGE_MS = 30 * 60_000;

/** A single run of a job on a connection. */
export class Attempt {
  readonly job: Job;
  readonly connection: PooledConnection;
  /** Whether other batches can be pipelined behind it. */
  readonly isQuick: boolean;
  /** True if no other batch was before it on its connection. */
  readonly isFirst: boolean;
  /** Sent without names of statements. */
  readonly isNameless: boolean;
  batch: Batch | undefined;
  /** `performance.now()` of the cancel; 0 before that. */
  cancelledAt = 0;
  /** True after a second attempt was started because the statement before this one is slow. */
  isHedged = false;

  constructor(job: Job, connection: PooledConnection) {
    this.job = job;
    this.connection = connection;
    this.isQuick = job.isPipelinable && job.latency.isQuick;
    this.isNameless = job.isNameless;
    this.isFirst = connection.attempts.length === 0;
  }

  get isCancelled(): boolean {
    return this.cancelledAt > 0;
  }

  /** `performance.now()` when the server began the batch; 0 before that. */
  get startedAt(): number {
    return this.batch?.startedAt ?? 0;
  }

  /**
   * Whether the run takes much longer than usual. The mean follows the present load: if everything is slow because of
   * overload, a second run would increase it.
   */
  isLate(now: number): boolean {
    if (this.startedAt === 0) return false;
    const usual = Math.min(LATE_FACTOR * this.job.latency.mean, SLOW_MS);
    return now - this.startedAt > Math.max(usual, MIN_LATE_MS);
  }

  /**
   * Cancels only the running statement: behind others, a cancel would hit another caller's statement. The pool
   * repeats the cancel, because one that arrives before the statement has no effect.
   */
  cancel(): void {
    if (!this.isCancelled) this.cancelledAt = performance.now();
    if (this.connection.attempts[0] === this) this.connection.cancel();
  }
}

export class PooledConnection {
  readonly wire: OpenWire['wire'];
  /** The server of the connection. */
  readonly target: string;
  /** True if the server is a standby, because no primary was reachable. */
  readonly isStandIn: boolean;
  readonly openedAt = performance.now();
  /** Randomised, so that connections opened together do not expire together. */
  readonly #expiresAt: number;
  readonly #cancel: (onSeen: () => void) => void;
  readonly #attempts: Attempt[] = [];
  idleSince = 0;
  /** The caller with exclusive use. */
  holder: Holder | undefined;
  /** `performance.now()` when a caller acquired it exclusively; 0 while it is shared or idle. */
  #heldSince = 0;
  /** `performance.now()` when the exclusive caller disconnected; 0 before that. */
  #abandonedAt = 0;
  /** True if the connection is closed as soon as it is idle. */
  isLeaving = false;
  /** The running batch at the last check. */
  #seen: Batch | undefined;
  #seenResults = 0;
  #progressAt = 0;
  #received = 0;
  #receivedAt = 0;
  #silentChecks = 0;
  /** Number of cancels in transit. The server must process them before another caller's statement runs. */
  #cancels = 0;
  #cancelledAt = Number.NEGATIVE_INFINITY;
  #onCancelled: (() => void) | undefined;

  constructor(opened: OpenWire, maxAgeMs = MAX_AGE_MS) {
    this.wire = opened.wire;
    this.target = opened.target;
    this.isStandIn = opened.isStandIn;
    this.#cancel = (onSeen) => opened.cancel(onSeen);
    this.#expiresAt = this.openedAt + maxAgeMs * (0.9 + 0.2 * Math.random());
  }

  /** Whether the connection should be closed as soon as it is idle. */
  isOver(now: number): boolean {
    return this.isLeaving || now > this.#expiresAt;
  }

  /** Attempts in the order of sending. */
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

  /** Whether a cancel for another statement may have hit a statement that was cancelled here. */
  get wasCancelled(): boolean {
    return this.isCancelling || performance.now() - this.#cancelledAt < CANCEL_SHADOW_MS;
  }

  /**
   * Whether the job can be pipelined here. Only the last attempt can be slow: batches are never pipelined behind a
   * slow one.
   */
  admits(job: Job, now: number): boolean {
    const { wire } = this;
    const attempts = this.#attempts;
    const first = attempts[0];
    if (!first || !attempts.at(-1)?.isQuick || first.isLate(now) || this.isOver(now)) return false;
    return wire.usable && !this.isCancelling && wire.knowsNames(job.statements);
  }

  /**
   * Called every few hundred milliseconds. Returns true for a silent server with a statement past its deadline or its
   * cancel (which is repeated until it has an effect), and for a caller that does not return the connection.
   */
  isDead(now: number, statementTimeoutMs: number): boolean {
    const { busy, received } = this.wire;
    if (received !== this.#received) this.#receivedAt = now;
    const isSilent = received === this.#received;
    this.#received = received;
    if (this.#heldSince > 0 && now - this.#heldSince > MAX_HELD_MS) return true;
    if (!busy) return false;
    this.#seeProgress(busy, now);
    const isOverdue = this.#isOverdue(busy, now, statementTimeoutMs);
    this.#silentChecks = isOverdue && isSilent ? this.#silentChecks + 1 : 0;
    return this.#silentChecks >= MAX_SILENT_CHECKS;
  }

  /** Whether a batch was sent and no byte has arrived for `forMs`. */
  isQuiet(now: number, forMs: number): boolean {
    const { busy } = this.wire;
    return busy !== undefined && now - Math.max(this.#receivedAt, busy.startedAt) >= forMs;
  }

  /** Restarts the deadline for each statement of a batch. */
  #seeProgress(busy: Batch, now: number): void {
    const { length } = busy.results;
    if (busy !== this.#seen) this.#progressAt = busy.startedAt;
    else if (length !== this.#seenResults) this.#progressAt = now;
    this.#seen = busy;
    this.#seenResults = length;
  }

  #isOverdue(busy: Batch, now: number, statementTimeoutMs: number): boolean {
    const graceMs = GRACE_MS - CHECKING_MS;
    if (statementTimeoutMs > 0 && now - this.#progressAt > statementTimeoutMs + graceMs) return true;
    const [first] = this.#attempts;
    const cancelledAt = first === undefined ? this.#abandonedAt : first.cancelledAt;
    if (cancelledAt === 0 || busy.canBeCommitted) return false;
    if (!this.isCancelling) this.cancel();
    return now - Math.max(cancelledAt, busy.startedAt) > graceMs;
  }

  /** The caller that has this connection exclusively has left. */
  abandon(): void {
    this.#abandonedAt = performance.now();
    if (this.wire.busy) this.cancel();
  }

  /** Cancels the running statement. Not the commit, because a cancel would only end its wait for the standbys. */
  cancel(): void {
    if (this.wire.busy?.canBeCommitted === true) return;
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

  /** Grants the connection to one caller exclusively. */
  hold(holder: Holder): void {
    this.holder = holder;
    this.#heldSince = performance.now();
  }

  /** Ends the exclusive use. */
  free(): void {
    this.holder = undefined;
    this.#heldSince = 0;
    this.#abandonedAt = 0;
  }

  /** Calls `then` once the server has processed all cancels in transit. */
  afterCancel(then: () => void): void {
    this.#onCancelled = then;
  }
}
