// What the pool runs: a batch of statements, its attempts, and how quick it has been. Which connection it gets is
// the pool's business.
import { Abort } from '../../problem/problem.ts';
import type { PooledConnection } from './pooled-connection.ts';
import type { Batch, OnSettled, WireStatement } from '../wire/wire.ts';

/** A statement is quick when it can be this quick, in milliseconds: on a busy machine even the quickest takes long at times. */
const QUICK_MS = 5;
/** A statement whose runs take this long is none to stand behind. */
const SLOW_MS = 100;
/** One that takes this many times its mean holds up those behind it: they look for another connection. */
const LATE_TIMES = 8;
const SOONEST_LATE_MS = 50;

/** Where a statement leaves its cancel, for whoever watches the client's socket and the deadline. */
export type Cancellable = {
  /** Ends the wait for a connection, or the statement that runs. */
  cancel: (() => void) | undefined;
  /** Why nobody wants it any more; what nobody wants is not begun. */
  readonly aborted?: Abort['reason'] | undefined;
};

export function givenUp(cancellable: Cancellable | undefined): Abort {
  return new Abort(cancellable?.aborted ?? 'client-gone');
}

/** How long a statement has taken of late, in milliseconds, the way to the server and back included. */
export class Pace {
  #mean = 0;
  #longMean = 0;
  #best = Number.POSITIVE_INFINITY;

  get mean(): number {
    return this.#mean;
  }

  /** The mean of the last hundred runs or so: what one run costs a connection, however their answers arrive. */
  get longMean(): number {
    return this.#longMean;
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
      this.#longMean = ms;
      this.#best = ms;
      return;
    }
    this.#mean += (ms - this.#mean) / 8;
    this.#longMean += (ms - this.#longMean) / 128;
    if (wasAlone) this.#best = Math.min(ms, this.#best + (ms - this.#best) / 64);
  }
}

/** Who waits for what a job brings. */
type Caller = { readonly cancellable: Cancellable | undefined; readonly settle: OnSettled };

export type JobOptions = Pick<Job, 'statements' | 'isRead' | 'isShareable' | 'isRepeatable' | 'pace'> &
  Caller;

export class Job {
  readonly statements: readonly WireStatement[];
  readonly isRead: boolean;
  /** A read that collects its rows: it may share a connection, and run twice. */
  readonly isShareable: boolean;
  /** A shareable read with one answer at a time, however often it is asked: it may run once for all who wait for it. */
  readonly isRepeatable: boolean;
  readonly pace: Pace;
  /** Each of them asked the same. */
  #callers: Caller[];
  /** Attempts that have not ended: two for a read that was held up. */
  readonly #underWay: Attempt[] = [];
  attempts = 0;
  isSettled = false;
  /** The last who wanted it has left: what is under way is being cancelled, and nothing more is begun. */
  #isGivenUp = false;
  /** Sent without names: one that was sent with them found that they do not last. */
  isNameless = false;
  #hash: number | undefined;

  constructor(options: JobOptions) {
    this.statements = options.statements;
    this.isRead = options.isRead;
    this.isShareable = options.isShareable;
    this.isRepeatable = options.isRepeatable;
    this.pace = options.pace;
    this.#callers = [options];
    this.#watch(options);
  }

  get isWanted(): boolean {
    return !this.isSettled && !this.#isGivenUp;
  }

  get isUnderWay(): boolean {
    return this.#underWay.length > 0;
  }

  /** Whether others may have its answer. Once it has been started, its answer may be older than the next question. */
  get mayBeJoined(): boolean {
    return this.isRepeatable && this.attempts === 0;
  }

  /** A number that is the same for jobs that ask the same. */
  get hash(): number {
    return (this.#hash ??= hashOf(this.statements));
  }

  /** The same statements with the same values; the settings of the caller are the first of them. */
  asksTheSameAs(other: Job): boolean {
    const { length } = this.statements;
    if (length !== other.statements.length) return false;
    for (let at = 0; at < length; at += 1) {
      if (!isSame(this.statements[at], other.statements[at])) return false;
    }
    return true;
  }

  /** Adds the callers of a job with the same question. */
  join(other: Job): void {
    for (const caller of other.#callers) {
      this.#callers.push(caller);
      this.#watch(caller);
    }
  }

  started(attempt: Attempt): void {
    this.attempts += 1;
    this.#underWay.push(attempt);
  }

  ended(attempt: Attempt): void {
    this.#underWay.splice(this.#underWay.indexOf(attempt), 1);
  }

  /** The first outcome counts. */
  end(...[error, results]: Parameters<OnSettled>): void {
    if (this.isSettled) return;
    this.isSettled = true;
    for (const { cancellable, settle } of this.#callers) {
      if (cancellable) cancellable.cancel = undefined;
      settle(error, results);
    }
  }

  #watch(caller: Caller): void {
    if (caller.cancellable) caller.cancellable.cancel = () => this.#leave(caller);
  }

  /** The statement goes on as long as anybody waits for it. */
  #leave(caller: Caller): void {
    const { cancellable } = caller;
    if (this.#callers.length === 1) {
      this.#isGivenUp = true;
      for (const attempt of this.#underWay) attempt.cancel();
      if (!this.isUnderWay) this.end(givenUp(cancellable), []);
      return;
    }
    this.#callers = this.#callers.filter((one) => one !== caller);
    if (cancellable) cancellable.cancel = undefined;
    caller.settle(givenUp(cancellable), []);
  }
}

function isSame(one: WireStatement | undefined, other: WireStatement | undefined): boolean {
  if (one?.name === undefined || one.name !== other?.name) return false;
  // One name has one text, and so as many values.
  const { values } = other;
  return one.values.every((value, at) => value === values[at]);
}

/** Characters of a value that count. */
const MOST_HASHED = 400;

/** FNV-1a over names and values, 32 bits. */
function hashOf(statements: readonly WireStatement[]): number {
  let hash = 0x811c9dc5;
  const add = (text: string): void => {
    const end = Math.min(text.length, MOST_HASHED);
    for (let at = 0; at < end; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  };
  for (const { name, values } of statements) {
    if (name !== undefined) add(name);
    for (const value of values) if (typeof value === 'string') add(value);
  }
  return hash >>> 0;
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
  /** `performance.now()`; 0 while it is wanted. */
  cancelledAt = 0;
  /** A second attempt was asked for, because what stands before this one takes long. */
  isHeldUp = false;

  constructor(job: Job, connection: PooledConnection) {
    this.job = job;
    this.connection = connection;
    this.isQuick = job.isShareable && job.pace.isQuick;
    this.isAlone = connection.attempts.length === 0;
  }

  get isCancelled(): boolean {
    return this.cancelledAt > 0;
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

  /**
   * Further back in line it is left alone until its turn: a cancel would hit somebody else's statement. The pool asks
   * again, because a cancel that comes before the statement has no effect.
   */
  cancel(): void {
    if (!this.isCancelled) this.cancelledAt = performance.now();
    if (this.connection.attempts[0] === this) this.connection.cancel();
  }
}
