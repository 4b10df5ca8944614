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
/** How long after its deadline, or after its cancel, the server may take to report the end of a statement. */
const GRACE_MS = 2_000;
/** One connection is not for one caller alone for longer. */
const MAX_HELD_MS = 30_000;
/**
 * An overdue connection is dead after this many checks in a row without a byte. More than one, because after a stall of
 * this process a check comes before the bytes that have arrived meanwhile are read.
 */
const MAX_SILENT_CHECKS = 2;
/** The last of the grace, which the checks without a byte take. */
const CHECKING_MS = 500;
/** Connections are closed at about this age, so that changed names and new hosts are found. */
const MAX_AGE_MS = 30 * 60_000;

/** One run of a job on a connection. */
export class Attempt {
  readonly job: Job;
  readonly connection: PooledConnection;
  /** Others may be pipelined behind it. */
  readonly isQuick: boolean;
  /** Nothing was before it on its connection. */
  readonly isFirst: boolean;
  /** Sent without names of statements. */
  readonly isNameless: boolean;
  batch: Batch | undefined;
  /** `performance.now()`; 0 while it is wanted. */
  cancelledAt = 0;
  /** A second attempt was started because the statement before this one takes long. */
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
  /** The server it leads to. */
  readonly target: string;
  /** A standby, because no primary was there. */
  readonly isStandIn: boolean;
  readonly openedAt = performance.now();
  /** Not all at once: those that were opened together would be missed together. */
  readonly #expiresAt: number;
  readonly #cancel: (onSeen: () => void) => void;
  readonly #attempts: Attempt[] = [];
  idleSince = 0;
  /** `performance.now()` when one caller got it exclusively; 0 while nobody has it so. */
  #heldSince = 0;
  /** `performance.now()` when the caller that has it exclusively left; 0 before that. */
  #abandonedAt = 0;
  /** Closed as soon as nobody uses it. */
  isLeaving = false;
  /** What the last check saw of the running batch. */
  #seen: Batch | undefined;
  #seenResults = 0;
  #progressAt = 0;
  #received = 0;
  #receivedAt = 0;
  #silentChecks = 0;
  /** Cancels on their way: the server must have seen them before anybody else's statement runs. */
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

  /** It is not to be used any more once nobody does. */
  isOver(now: number): boolean {
    return this.isLeaving || now > this.#expiresAt;
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
    if (!first || !attempts.at(-1)?.isQuick || first.isLate(now) || this.isOver(now)) return false;
    return wire.usable && !this.isCancelling && wire.knowsNames(job.statements);
  }

  /**
   * Asked every few hundred milliseconds. Whether its time is up: a statement past its deadline or its cancel, which is
   * repeated until it has an effect, with a server that says nothing; or one caller who does not give it back.
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

  /** Something was sent, and nothing has come for so long. */
  isQuiet(now: number, forMs: number): boolean {
    const { busy } = this.wire;
    return busy !== undefined && now - Math.max(this.#receivedAt, busy.startedAt) >= forMs;
  }

  /** Each statement of a batch has the whole of its deadline. */
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
    if (cancelledAt === 0 || busy.mayBeCommitted) return false;
    if (!this.isCancelling) this.cancel();
    return now - Math.max(cancelledAt, busy.startedAt) > graceMs;
  }

  /** The caller that has this connection exclusively has left. */
  abandon(): void {
    this.#abandonedAt = performance.now();
    if (this.wire.busy) this.cancel();
  }

  /**
   * Ends whatever the server is running for this connection now. Not the commit: that would only cut off its wait for
   * the standbys.
   */
  cancel(): void {
    if (this.wire.busy?.mayBeCommitted === true) return;
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

  /** One caller has it exclusively. */
  hold(): void {
    this.#heldSince = performance.now();
  }

  /** Its caller has returned it. */
  free(): void {
    this.#heldSince = 0;
    this.#abandonedAt = 0;
  }

  /** Calls `then` once the server has seen all cancels that are on their way. */
  afterCancel(then: () => void): void {
    this.#onCancelled = then;
  }
}
