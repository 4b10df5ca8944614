// What the pool runs: a batch of statements for one or more callers. Which connection it runs on is decided by the pool.
import { Abort } from '../../problem/problem.ts';
import type { OnSettled } from '../wire/wire.ts';
import type { WireStatement } from '../wire/statement.ts';
import type { LatencyEstimate } from './latency-estimate.ts';
import type { Origin, Sharer } from './sharer.ts';

/** Through this, whoever watches the client's socket and the deadline cancels a statement. */
export type Cancellable = Origin & {
  /** Ends the wait for a connection, or the running statement. */
  cancel: (() => void) | undefined;
  /** Why the result is no longer wanted; such a statement is not started. */
  readonly aborted?: Abort['reason'] | undefined;
  /** Of the request, for the log. */
  readonly id?: string | undefined;
  readonly traceId?: string | undefined;
  /** `performance.now()` at which the result is no longer wanted. */
  readonly endsAt?: number | undefined;
  /** For the log: whose rights its statements had, and how long they took at the database, in milliseconds. */
  sharer?: Sharer | undefined;
  dbMs?: number | undefined;
};

/** Without the wait for a connection. */
export function noteTime(cancellable: Cancellable | undefined, sharer: Sharer | undefined, ms: number): void {
  if (!cancellable) return;
  cancellable.sharer = sharer;
  cancellable.dbMs = (cancellable.dbMs ?? 0) + ms;
}

export function abortOf(cancellable: Cancellable | undefined): Abort {
  return new Abort(cancellable?.aborted ?? 'client-gone');
}

type Caller = {
  readonly cancellable: Cancellable | undefined;
  readonly sharer?: Sharer | undefined;
  readonly settle: OnSettled;
};

export type JobOptions = Pick<Job, 'statements' | 'isRead' | 'isPipelinable' | 'isRepeatable' | 'latency'> &
  Partial<Pick<Job, 'onRestart'>> &
  Caller;

export class Job {
  readonly statements: readonly WireStatement[];
  readonly isRead: boolean;
  /** A read that collects its rows: it may share a connection, and run twice. */
  readonly isPipelinable: boolean;
  /** A pipelinable read with one answer at a time: one run may answer all callers that wait for it (single-flight). */
  readonly isRepeatable: boolean;
  readonly latency: LatencyEstimate;
  /** Whose turn it takes while it waits: the first caller's. */
  readonly sharer: Sharer | undefined;
  readonly cancellable: Cancellable | undefined;
  /** Called before it runs once more: rows that were handed on are void. Null where they cannot be taken back. */
  readonly onRestart: (() => void) | null | undefined;
  /** More than one after single-flight. */
  #callers: Caller[];
  /** Attempts that have not ended: two for a hedged read. */
  readonly #running: Array<{ cancel(): void }> = [];
  attempts = 0;
  /** `performance.now()` when it began to wait for a connection, if only for a moment. */
  askedAt = 0;
  /** `performance.now()` at which its wait for a connection times out; 0 before it has waited. */
  until = 0;
  /** `performance.now()` when it first failed by its connection; 0 before that. */
  failingSince = 0;
  /** Runs that failed by their connection. */
  failures = 0;
  isSettled = false;
  /** The last caller has left: running attempts are being cancelled, and no other is started. */
  #isAbandoned = false;
  /** Sent without statement names, after a name turned out not to last on its session. */
  isNameless = false;
  /** Gives up its place in the queue, while it has one. */
  leaveQueue: (() => void) | undefined;
  /** Where `SingleFlight` keeps it while it waits. */
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

  /** Answers the callers of an identical job too. */
  takeCallersOf(other: Job): void {
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

  /** Of an attempt whose outcome counts. */
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

  /** The statement is cancelled when its last caller leaves. */
  #leave(caller: Caller): void {
    const { cancellable } = caller;
    if (this.#callers.length === 1) {
      this.#isAbandoned = true;
      this.leaveQueue?.();
      for (const attempt of this.#running) attempt.cancel();
      if (!this.isRunning) this.settle(abortOf(cancellable), []);
      return;
    }
    this.#callers = this.#callers.filter((one) => one !== caller);
    if (cancellable) cancellable.cancel = undefined;
    caller.settle(abortOf(cancellable), []);
  }
}
