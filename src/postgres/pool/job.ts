// A batch of statements that the pool runs for one or more callers. The pool chooses the connection.
import { Abort } from '../../problem/problem.ts';
import type { OnSettled } from '../wire/wire.ts';
import type { WireStatement } from '../wire/statement.ts';
import type { LatencyEstimate } from './latency-estimate.ts';
import type { CallerIdentity, Origin } from '../../lib/limits/caller-key.ts';

/** Lets the watchers of the client's socket and of the deadline cancel a statement. */
export type Cancellable = Origin & {
  /** Ends the wait for a connection, or the running statement. */
  cancel: (() => void) | undefined;
  /** Reason of the cancellation. A cancelled statement is not started. */
  readonly aborted?: Abort['reason'] | undefined;
  /** Id of the request, for the log. */
  readonly id?: string | undefined;
  readonly traceId?: string | undefined;
  /** `performance.now()` at which the result is no longer wanted. */
  readonly endsAt?: number | undefined;
  /** True if the statistics of statements exclude its statements. */
  readonly isUncounted?: boolean | undefined;
  /** Caller and database time in milliseconds, for the log. */
  sharer?: CallerIdentity | undefined;
  dbMs?: number | undefined;
};

/** Adds the database time, without the wait for a connection. */
export function noteTime(
  cancellable: Cancellable | undefined,
  sharer: CallerIdentity | undefined,
  ms: number,
): void {
  if (!cancellable) return;
  cancellable.sharer = sharer;
  cancellable.dbMs = (cancellable.dbMs ?? 0) + ms;
}

export function abortError(cancellable: Cancellable | undefined): Abort {
  return new Abort(cancellable?.aborted ?? 'client-gone');
}

/** The caller that a connection is granted to. */
export type Holder = {
  readonly sharer: CallerIdentity | undefined;
  readonly cancellable: Cancellable | undefined;
  /** Set by `holderKey`. */
  key?: string;
};

type Caller = {
  readonly cancellable: Cancellable | undefined;
  readonly sharer?: CallerIdentity | undefined;
  readonly settle: OnSettled;
};

export type JobOptions = Pick<Job, 'statements' | 'isRead' | 'isPipelinable' | 'isRepeatable' | 'latency'> &
  Partial<Pick<Job, 'onRestart'>> &
  Caller;

export class Job {
  readonly statements: readonly WireStatement[];
  readonly isRead: boolean;
  /** A read that collects its rows: it can share a connection and run twice. */
  readonly isPipelinable: boolean;
  /** A pipelinable read whose result can be shared: one run serves all callers that wait for it (single-flight). */
  readonly isRepeatable: boolean;
  readonly latency: LatencyEstimate;
  /** The caller whose turn the job uses while it waits: the first one. */
  readonly sharer: CallerIdentity | undefined;
  readonly cancellable: Cancellable | undefined;
  /** Set by `holderKey`. */
  key?: string;
  /** Called before the job runs again: discard its delivered rows. Null if they cannot be discarded. */
  readonly onRestart: (() => void) | null | undefined;
  /** More than one caller after single-flight. */
  #callers: Caller[];
  /** Attempts that have not ended: two for a hedged read. */
  readonly #running: Array<{ cancel(): void }> = [];
  attempts = 0;
  /** `performance.now()` of the request for a connection. */
  askedAt = 0;
  /** `performance.now()` at which the wait for a connection times out; 0 before it has waited. */
  until = 0;
  /** `performance.now()` of the first connection failure; 0 before that. */
  failingSince = 0;
  /** Runs that failed by their connection. */
  failures = 0;
  isSettled = false;
  /** The last caller has left: running attempts are being cancelled, and no new one starts. */
  #isAbandoned = false;
  /** Sends statements without names, after a session has lost one. */
  isNameless = false;
  /** Removes the job from the queue while it waits. */
  leaveQueue: (() => void) | undefined;
  /** Slot in `SingleFlight` while the job waits. */
  slot = -1;

  constructor(options: JobOptions) {
    this.statements = options.statements;
    this.isRead = options.isRead;
    this.isPipelinable = options.isPipelinable;
    this.isRepeatable = options.isRepeatable;
    this.latency = options.latency;
    this.sharer = options.sharer;
    this.cancellable = options.cancellable;
    this.onRestart = options.onRestart;
    this.#callers = [options];
    this.#watch(options);
  }

  get isWanted(): boolean {
    return !this.isSettled && !this.#isAbandoned;
  }

  get isRunning(): boolean {
    return this.#running.length > 0;
  }

  /** Adds the callers of an identical job. */
  adoptWaiters(other: Job): void {
    for (const caller of other.#callers) {
      this.#callers.push(caller);
      this.#watch(caller);
    }
  }

  started(attempt: { cancel(): void }): void {
    if (this.attempts > 0) this.onRestart?.();
    this.attempts += 1;
    this.#running.push(attempt);
  }

  ended(attempt: { cancel(): void }): void {
    this.#running.splice(this.#running.indexOf(attempt), 1);
  }

  /** Records the time of an attempt whose outcome counts. */
  took(ms: number): void {
    for (const { cancellable, sharer } of this.#callers) noteTime(cancellable, sharer, ms);
  }

  /** The first outcome counts. */
  settle(...[error, results]: Parameters<OnSettled>): void {
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

  /** Removes a caller. The statement is cancelled when its last caller leaves. */
  #leave(caller: Caller): void {
    const { cancellable } = caller;
    if (this.#callers.length === 1) {
      this.#isAbandoned = true;
      this.leaveQueue?.();
      for (const attempt of this.#running) attempt.cancel();
      if (!this.isRunning) this.settle(abortError(cancellable), []);
      return;
    }
    this.#callers = this.#callers.filter((waiting) => waiting !== caller);
    if (cancellable) cancellable.cancel = undefined;
    caller.settle(abortError(cancellable), []);
  }
}
