// What the pool runs: a batch of statements, its attempts, and how quick it has been. Which connection it gets is
// the pool's business.
import type { PooledConnection } from './pooled-connection.ts';
import type { Batch, OnSettled, WireStatement } from './wire.ts';

/** A statement is quick when it can be this quick, in milliseconds: on a busy machine even the quickest takes long at times. */
const QUICK_MS = 5;
/** A statement whose runs take this long is none to stand behind. */
const SLOW_MS = 100;
/** One that takes this many times its mean holds up those behind it: they look for another connection. */
const LATE_TIMES = 8;
const SOONEST_LATE_MS = 50;

/** Where the running statement leaves its cancel, for whoever watches the client's socket and the deadline. */
export type Cancellable = { cancel: (() => void) | undefined };

/** How long a statement has taken of late, in milliseconds, the way to the server and back included. */
export class Pace {
  #mean = 0;
  #best = Number.POSITIVE_INFINITY;

  get mean(): number {
    return this.#mean;
  }

  /** Quick enough for others to stand behind it; a statement that never ran is not. */
  get isQuick(): boolean {
    return this.#best <= QUICK_MS && this.#mean <= SLOW_MS;
  }

  /**
   * Both figures move, so that one slow run is remembered for a few dozen quick ones. `wasAlone`: nobody was before
   * it on its connection. The answers of those who stand in line arrive together, which makes all but the first look
   * quicker than they are.
   */
  note(ms: number, wasAlone: boolean): void {
    if (this.#best === Number.POSITIVE_INFINITY) {
      this.#mean = ms;
      this.#best = ms;
      return;
    }
    this.#mean += (ms - this.#mean) / 8;
    if (wasAlone) this.#best = Math.min(ms, this.#best + (ms - this.#best) / 64);
  }
}

export type JobOptions = Pick<
  Job,
  'statements' | 'isRead' | 'isShareable' | 'pace' | 'cancellable' | 'settle'
>;

export class Job {
  readonly statements: readonly WireStatement[];
  readonly isRead: boolean;
  /** A read that collects its rows: it may share a connection, and run twice. */
  readonly isShareable: boolean;
  readonly pace: Pace;
  readonly cancellable: Cancellable | undefined;
  readonly settle: OnSettled;
  attempts = 0;
  /** Attempts that have not ended: two for a read that was held up. */
  underWay = 0;
  isSettled = false;

  constructor({ statements, isRead, isShareable, pace, cancellable, settle }: JobOptions) {
    this.statements = statements;
    this.isRead = isRead;
    this.isShareable = isShareable;
    this.pace = pace;
    this.cancellable = cancellable;
    this.settle = settle;
  }

  /** The first outcome counts. */
  end(...[error, results]: Parameters<OnSettled>): void {
    if (this.isSettled) return;
    this.isSettled = true;
    if (this.cancellable) this.cancellable.cancel = undefined;
    this.settle(error, results);
  }
}

/** A job on a connection. */
export class Attempt {
  readonly job: Job;
  readonly connection: PooledConnection;
  /** Others may stand behind it. */
  readonly isQuick: boolean;
  /** Nobody was before it. */
  readonly isAlone: boolean;
  batch: Batch | undefined;
  isCancelled = false;
  /** A second attempt was asked for, because what stands before this one takes long. */
  isHeldUp = false;

  constructor(job: Job, connection: PooledConnection) {
    this.job = job;
    this.connection = connection;
    this.isQuick = job.isShareable && job.pace.isQuick;
    this.isAlone = connection.attempts.length === 0;
  }

  /** When the server turned to it; 0 before that. */
  get startedAt(): number {
    return this.batch?.startedAt ?? 0;
  }

  /**
   * The server works on it for much longer than usual. Measured by what is usual now: where everything is slow because
   * there is too much to do, running things twice would only add to it.
   */
  isLate(now: number): boolean {
    if (this.startedAt === 0) return false;
    const usual = Math.min(LATE_TIMES * this.job.pace.mean, SLOW_MS);
    return now - this.startedAt > Math.max(usual, SOONEST_LATE_MS);
  }

  /** Further back in line it is left to run: it is quick, and a cancel would hit somebody else's statement. */
  cancel(): void {
    this.isCancelled = true;
    if (this.connection.attempts[0] === this) this.connection.cancel();
  }
}
