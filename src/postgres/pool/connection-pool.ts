// Decides which connection runs what. A job gets an idle connection or a new one. If there is none, a read is pipelined
// behind quick reads on a busy connection: the server goes from one to the next without waiting for us, and several
// leave in one write. Everything else waits for a connection of its own.
// What keeps a slow statement from holding up those behind it: docs/decisions/0035; how many connections read: 0036.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Problem } from '../../problem/problem.ts';
import { openWire, type ConnectionSettings } from '../connection.ts';
import {
  ConnectionLost,
  DatabaseUnavailable,
  failureClass,
  isDatabaseError,
  NeverSent,
} from '../pg-error.ts';
import type { OnSettled, WireStatement } from '../wire/wire.ts';
import { afterFailure, toCaller, type Next } from './after-failure.ts';
import { abortOf, Job, type Cancellable, type JobOptions } from './job.ts';
import { LatencyEstimate } from './latency-estimate.ts';
import { Openings } from './openings.ts';
import { Attempt, PooledConnection } from './pooled-connection.ts';
import { Admission } from './admission.ts';
import { turnKey, type Sharer } from './sharer.ts';
import { isBefore, WaitQueue, type Waiting } from './wait-queue.ts';

export type ConnectionPoolOptions = ConnectionSettings & {
  /** Most connections open at once. */
  readonly max: number;
  /** Most connections that read at once, not counting those that have been reading for long. Default: all. */
  readonly maxReading?: number | undefined;
  /** Connections kept open when idle. */
  readonly minIdle: number;
  readonly idleTimeoutMs: number;
  /** How long a request may wait for a free connection, in milliseconds. */
  readonly acquireTimeoutMs?: number | undefined;
  /** Most requests that wait for a connection; of one caller half of them. Default: any number. */
  readonly queue?: number | undefined;
  /** How long a request is held while the database cannot be reached, in milliseconds. */
  readonly failoverWaitMs?: number | undefined;
  /** Connections are closed at about this age. */
  readonly maxAgeMs?: number | undefined;
  /** A server that was written to is a standby: others are to be tried before it. */
  readonly onNotPrimary?: ((target: string) => void) | undefined;
  readonly onNotice?: ((message: string) => void) | undefined;
};

/** Batches in flight on one connection. More of them save hardly anything. */
const MAX_PIPELINE_DEPTH = 16;
/** The same for statements whose mean latency, in milliseconds, makes the network round trip negligible. */
const MAX_DEPTH_OF_SLOWER = 3;
const SLOWER_MS = 2.5;
/** A read that takes longer may be waiting for something other than a processor: others are let in beside it. */
const LONG_READ_MS = 100;
const CHECK_READS_EVERY_MS = 10;
const MAX_ATTEMPTS = 4;
const CHECK_BUSY_EVERY_MS = 250;
/** Two connections to one server that die within this time have the same cause. */
const SAME_CAUSE_MS = 1_000;
/** Then those are dead too that have been sent something and have said nothing for so long. */
const QUIET_MS = 2_000;
/** Connections to a standby are not all opened anew for each write that meets it. */
const LEAVE_EVERY_MS = 1_000;
const NAMES_LOST_WITHIN_MS = 60_000;
const ASK_AGAIN_MS = 250;
const MIN_OPENING_PAUSE_MS = 10;

const UNNAMED = { isAboutName: false, isNameless: true };
/** An answer this recent shows that the database answers. */
const RECENT_ANSWER_MS = 2_000;
/** With all connections busy, the database does not answer if no answer has come for this long. */
const NO_ANSWER_MS = 5_000;

/** Refusals for lack of time come at most this late. */
const LEAST_WATCH_MS = 10;

const poolExhausted = (): Problem =>
  new Problem('pool_exhausted', 504, 'Timed out acquiring connection from connection pool.', {
    hint: 'All database connections were busy. Raise database.pool.max or look for slow statements.',
  });

export class ConnectionPool {
  readonly #options: ConnectionPoolOptions;
  readonly #maxReading: number;
  readonly #all: PooledConnection[] = [];
  readonly #idle: PooledConnection[] = [];
  readonly #waitingReads = new WaitQueue();
  readonly #waitingOthers = new WaitQueue();
  readonly #admission: Admission;
  readonly #openings: Openings;
  #openingToRead = 0;
  #closed = false;
  readonly #reaper: NodeJS.Timeout;
  readonly #busyTimer: NodeJS.Timeout;
  /** `performance.now()` when a batch last ended. */
  #answeredAt = Number.NEGATIVE_INFINITY;
  #waitingTimer: NodeJS.Timeout | undefined;
  #readTimer: NodeJS.Timeout | undefined;
  #openingTimer: NodeJS.Timeout | undefined;
  /** The last connection that died by the clock, and the last server that was left: when, and which. */
  #died = { at: Number.NEGATIVE_INFINITY, target: '' };
  #left = { at: Number.NEGATIVE_INFINITY, target: '' };
  #nameLostAt = Number.NEGATIVE_INFINITY;
  #lastFailure: unknown;

  constructor(options: ConnectionPoolOptions) {
    this.#options = options;
    this.#maxReading = Math.min(options.maxReading ?? options.max, options.max);
    this.#admission = new Admission(options.queue ?? Number.POSITIVE_INFINITY);
    this.#openings = new Openings(options.max);
    this.#reaper = setInterval(() => this.#reap(), Math.min(options.idleTimeoutMs, 30_000));
    this.#reaper.unref();
    this.#busyTimer = setInterval(() => this.#checkBusy(), CHECK_BUSY_EVERY_MS);
    this.#busyTimer.unref();
  }

  get size(): { open: number; idle: number; waiting: number } {
    return { open: this.#all.length, idle: this.#idle.length, waiting: this.#waiting };
  }

  /** Takes callbacks instead of returning a promise: at this rate of requests each turn of the microtask queue shows. */
  run(options: JobOptions): void {
    const { cancellable, settle } = options;
    if (cancellable?.aborted) {
      settle(abortOf(cancellable), []);
      return;
    }
    this.#seek(this.#waitingFor(new Job(options)));
  }

  /** The refusal of a request that would have to wait and has no place, or would time out there. */
  refusal(sharer?: Sharer, cancellable?: Cancellable): Problem | undefined {
    const waiting = this.#waiting;
    if (waiting === 0) return undefined;
    const now = performance.now();
    const key = turnKey(sharer, cancellable);
    // While the database is away nothing ends, which says nothing about later.
    const patienceMs = this.#openings.isAway
      ? Number.POSITIVE_INFINITY
      : Math.min(this.#patienceMs, (cancellable?.endsAt ?? Number.POSITIVE_INFINITY) - now);
    const own = this.#waitingReads.heldBy(key) + this.#waitingOthers.heldBy(key);
    const before = (): number => this.#waitingReads.before(key) + this.#waitingOthers.before(key);
    return this.#admission.refusal({ waiting, own, before, running: this.#all.length, patienceMs }, now);
  }

  /** A connection for one caller's exclusive use, until `release`. */
  acquire(cancellable?: Cancellable, sharer?: Sharer): Promise<PooledConnection> {
    return new Promise((grant, refuse) => {
      if (cancellable?.aborted) {
        refuse(abortOf(cancellable));
        return;
      }
      const waiting: Waiting = {
        job: undefined,
        sharer,
        cancellable,
        isAbandoned: false,
        until: this.#deadline(),
        grant: (connection) => {
          if (waiting.isAbandoned) {
            this.#giveBack(connection);
            return;
          }
          connection.hold();
          grant(connection);
        },
        refuse,
      };
      if (cancellable) {
        cancellable.cancel = () => {
          waiting.isAbandoned = true;
          this.#waitingOthers.remove(waiting);
          refuse(abortOf(cancellable));
        };
      }
      this.#seek(waiting);
    });
  }

  /** The same, with statements run on it that do nothing by themselves: elsewhere when the connection fails them. */
  async acquireWith(
    statements: readonly WireStatement[],
    cancellable: Cancellable | undefined,
    sharer: Sharer | undefined,
  ): Promise<PooledConnection> {
    const since = performance.now();
    for (let failures = 1; ; failures += 1) {
      const connection = await this.acquire(cancellable, sharer);
      if (cancellable) cancellable.cancel = () => connection.abandon();
      try {
        if (cancellable?.aborted) throw abortOf(cancellable);
        await connection.wire.run(statements);
        return connection;
      } catch (thrown) {
        if (cancellable) cancellable.cancel = undefined;
        this.release(connection);
        const error = toError(thrown);
        const isInTime = performance.now() - since < this.#failoverWaitMs;
        const next = afterFailure({ error, isRead: true, failures, isInTime, ...UNNAMED });
        if (next !== 'again' || cancellable?.aborted !== undefined) throw toCaller(error, true);
      }
      // Connections that died with this one are known to be dead only after this turn of the event loop.
      await nextTurn();
    }
  }

  release(connection: PooledConnection): void {
    const { wire } = connection;
    connection.free();
    if (wire.usable && !wire.idle) {
      // A batch failed inside BEGIN: the transaction is still open and must not reach the next caller.
      wire.send([{ text: 'rollback', values: [] }], () => this.#giveBack(connection));
    } else {
      this.#giveBack(connection);
    }
  }

  /** Opens the minimum of idle connections ahead of the first requests. */
  async warm(): Promise<void> {
    const missing = Math.max(0, Math.min(this.#options.minIdle, this.#options.max) - this.#all.length);
    const connections = await Promise.all(Array.from({ length: missing }, () => this.#open()));
    for (const connection of connections) this.release(connection);
  }

  /**
   * Whether requests get an answer from the database: known from a recent answer, or tried on a connection like theirs.
   */
  async answers(withinMs: number): Promise<boolean> {
    const silentFor = performance.now() - this.#answeredAt;
    if (silentFor < RECENT_ANSWER_MS) return true;
    if (this.#idle.length === 0 && !this.#mayOpen) return silentFor < NO_ANSWER_MS;
    return await new Promise((resolve) => {
      const attempt: Cancellable = { cancel: undefined };
      const timer = setTimeout(() => {
        resolve(false);
        attempt.cancel?.();
      }, withinMs);
      this.run({
        statements: [{ text: 'select 1', values: [] }],
        isRead: false,
        isPipelinable: false,
        isRepeatable: false,
        latency: new LatencyEstimate(),
        cancellable: attempt,
        settle: (error) => {
          clearTimeout(timer);
          resolve(error === undefined);
        },
      });
    });
  }

  /** Refuses new work and closes each connection as soon as it is idle. */
  async close(): Promise<void> {
    this.#stop();
    for (const connection of this.#idle.slice()) this.#discard(connection);
    while (this.#all.length > 0 || this.#openings.underWay > 0) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  /** Closes at once: running statements are cut off with their connections. */
  destroy(): void {
    this.#stop();
    while (this.#all[0]) this.#discard(this.#all[0]);
  }

  #stop(): void {
    this.#closed = true;
    clearInterval(this.#reaper);
    clearInterval(this.#busyTimer);
    clearTimeout(this.#waitingTimer);
    clearTimeout(this.#readTimer);
    clearTimeout(this.#openingTimer);
    this.#waitingReads.refuseAll(poolClosed);
    this.#waitingOthers.refuseAll(poolClosed);
  }

  get #patienceMs(): number {
    return this.#options.acquireTimeoutMs ?? 10_000;
  }

  get #failoverWaitMs(): number {
    return this.#options.failoverWaitMs ?? 5_000;
  }

  #deadline(): number {
    return performance.now() + this.#patienceMs;
  }

  #waitingFor(job: Job): Waiting {
    if (job.until === 0) job.until = this.#deadline();
    return {
      job,
      sharer: job.sharer,
      cancellable: job.cancellable,
      until: job.until,
      grant: (connection) => this.#start(job, connection),
      refuse: (error) => {
        if (!job.isRunning) job.settle(error, []);
      },
    };
  }

  #seek(waiting: Waiting): void {
    if (this.#closed) {
      waiting.refuse(poolClosed());
      return;
    }
    const isRead = waiting.job?.isRead === true;
    if (isRead ? this.#serveRead(waiting) : this.#serve(waiting)) return;
    this.#queue(waiting, isRead ? this.#waitingReads : this.#waitingOthers);
    this.#watchWaiting();
    this.#watchOpenings();
    if (isRead) this.#watchReads();
  }

  /** For one that had its turn: before all others, with the time that it has left. */
  #seekAgain(waiting: Waiting): void {
    if (this.#closed) {
      waiting.refuse(poolClosed());
      return;
    }
    const isRead = waiting.job?.isRead === true;
    if ((!isRead || this.#mayRead()) && this.#serve(waiting)) return;
    const queue = isRead ? this.#waitingReads : this.#waitingOthers;
    queue.pushFront(waiting);
    if (waiting.job) waiting.job.leaveQueue = () => queue.remove(waiting);
    this.#watchWaiting();
    this.#watchOpenings();
    if (isRead) this.#watchReads();
  }

  #queue(waiting: Waiting, queue: WaitQueue): void {
    const { job } = waiting;
    // What was begun once, and what is tried a second time, has been admitted.
    const refusal = job && job.attempts > 0 ? undefined : this.refusal(waiting.sharer, waiting.cancellable);
    if (refusal) {
      waiting.refuse(refusal);
      return;
    }
    if (this.#waiting === 0) this.#admission.queued(performance.now());
    queue.push(waiting);
    if (job) job.leaveQueue = () => queue.remove(waiting);
  }

  /** Pipelined where it may not have a connection of its own. */
  #serveRead(waiting: Waiting): boolean {
    // Those that wait come first.
    if (this.#waitingReads.first) return false;
    if (this.#mayRead() && this.#serve(waiting)) return true;
    const connection =
      waiting.job && !this.#waitingOthers.first ? this.#shortestPipeline(waiting.job) : undefined;
    if (connection) waiting.grant(connection);
    return connection !== undefined;
  }

  /** True when it got a connection or will get the one that is being opened. */
  #serve(waiting: Waiting): boolean {
    for (;;) {
      const connection = this.#idle.pop();
      if (!connection) break;
      if (connection.wire.usable) {
        waiting.grant(connection);
        return true;
      }
      this.#discard(connection);
    }
    if (!this.#mayOpen) return false;
    const reads = waiting.job?.isRead === true ? 1 : 0;
    this.#openingToRead += reads;
    this.#open()
      .finally(() => (this.#openingToRead -= reads))
      .then(
        (connection) => waiting.grant(connection),
        (error: unknown) => this.#notOpened(waiting, toError(error)),
      );
    return true;
  }

  get #mayOpen(): boolean {
    return this.#openings.mayStart(this.#all.length);
  }

  /** Whether one more connection may read. */
  #mayRead(): boolean {
    if (this.#maxReading >= this.#options.max) return true;
    const now = performance.now();
    let reading = this.#openingToRead;
    for (const { attempts } of this.#all) {
      const [first] = attempts;
      if (first?.job.isRead === true && now - first.startedAt < LONG_READ_MS) reading += 1;
    }
    return reading < this.#maxReading;
  }

  get #waiting(): number {
    return this.#waitingReads.length + this.#waitingOthers.length;
  }

  #start(job: Job, connection: PooledConnection): void {
    if (!job.isWanted) {
      // Its callers left while the connection was being opened.
      if (connection.attempts.length === 0) this.#giveBack(connection);
      return;
    }
    const attempt = new Attempt(job, connection);
    job.started(attempt);
    connection.add(attempt);
    if (!attempt.isFirst) this.#watchReads();
    attempt.batch = connection.wire.send(
      job.statements,
      (error, results) => this.#ended(attempt, error, results),
      job,
    );
  }

  #ended(attempt: Attempt, error: Error | undefined, results: Parameters<OnSettled>[1]): void {
    const { job, connection, startedAt, isFirst } = attempt;
    connection.remove(attempt);
    job.ended(attempt);
    this.#admission.ended();
    if (startedAt > 0 && connection.wire.usable) {
      this.#answeredAt = performance.now();
      job.latency.record(this.#answeredAt - startedAt, isFirst);
    }
    const next = error === undefined ? 'answer' : this.#next(attempt, error);
    if (error !== undefined && next === 'ask') {
      this.#askForPrimary(attempt, error);
      return;
    }
    // The next statement is sent before the results of this one are handled.
    if (connection.attempts.length === 0) this.release(connection);
    if (error === undefined) job.settle(error, results);
    else if (next === 'answer') this.#answer(job, error);
    else if (next === 'again-nameless') this.#repeat(job);
    // Connections that died with this one are known to be dead only after this turn of the event loop.
    else setImmediate(() => this.#repeat(job));
  }

  #next(attempt: Attempt, error: Error): Next {
    const { job, connection, startedAt, isCancelled, batch } = attempt;
    if (!job.isWanted || isCancelled || this.#closed) return 'answer';
    const now = performance.now();
    const kind = failureClass(error);
    const isOfConnection =
      kind !== undefined && (kind !== 'rolled-back' || isDatabaseError(error, 'shutdown'));
    if (isOfConnection) {
      this.#lastFailure = error;
      if (job.failingSince === 0) job.failingSince = now;
      // Its turn had not come, or the connection was dead before: that says nothing about this request.
      const wasReached = startedAt > 0 && ((batch?.bound ?? 0) > 0 || connection.openedAt > job.failingSince);
      if (kind !== 'never-sent' && (wasReached || job.attempts >= MAX_ATTEMPTS)) job.failures += 1;
      // Another attempt, of a hedged read, may still succeed.
      if (job.isRunning) return 'again';
      // Rows were handed on that cannot be taken back.
      if (job.onRestart === null && batch?.isSent === true) return 'answer';
    } else if (job.isPipelinable && isDatabaseError(error, 'query_canceled') && connection.wasCancelled) {
      return job.attempts < MAX_ATTEMPTS ? 'again' : 'answer';
    }
    if (batch?.lostName === true) this.#countLostName(now);
    const next = afterFailure({
      error,
      isRead: job.isRead,
      failures: job.failures,
      isAboutName: batch?.lostName === true || batch?.hasStalePlan === true,
      isNameless: job.isNameless,
      isInTime: job.failingSince === 0 || now - job.failingSince < this.#failoverWaitMs,
    });
    if (next === 'again-nameless') job.isNameless = true;
    return next;
  }

  #answer(job: Job, error: Error): void {
    job.settle(toCaller(error, job.isRead), []);
  }

  /** Once more, with a wait of its own for a connection. */
  #repeat(job: Job): void {
    if (!job.isWanted || job.isRunning) return;
    job.until = 0;
    this.#seekAgain(this.#waitingFor(job));
  }

  /** The second one in a minute: sessions are not what they were found to be, which is found out for each new one. */
  #countLostName(now: number): void {
    if (now - this.#nameLostAt < NAMES_LOST_WITHIN_MS) for (const one of this.#all) one.isLeaving = true;
    this.#nameLostAt = now;
  }

  /** A write met a server that takes none: is that server a standby? Then the primary is somewhere else. */
  #askForPrimary({ job, connection }: Attempt, error: Error): void {
    connection.wire.send([{ text: 'select pg_is_in_recovery()', values: [] }], (failure, results) => {
      const isStandby = failure !== undefined || results[0]?.rows[0]?.[0]?.toString() === 't';
      if (isStandby) this.#leave(connection);
      this.release(connection);
      const now = performance.now();
      if (job.failingSince === 0) job.failingSince = now;
      const isInTime = now - job.failingSince < this.#failoverWaitMs;
      if (!isStandby || !isInTime) this.#answer(job, error);
      else setTimeout(() => this.#repeat(job), Math.min(ASK_AGAIN_MS, this.#failoverWaitMs));
    });
  }

  /** All connections to this server are closed as soon as they are idle. */
  #leave(connection: PooledConnection): void {
    connection.isLeaving = true;
    const { target } = connection;
    const now = performance.now();
    this.#options.onNotPrimary?.(target);
    if (this.#left.target === target && now - this.#left.at < LEAVE_EVERY_MS) return;
    this.#left = { at: now, target };
    for (const one of this.#all) if (one.target === target) one.isLeaving = true;
    for (const one of this.#idle.filter(({ isLeaving }) => isLeaving)) this.#discard(one);
  }

  /** The busy connection with the fewest batches behind which this job may be pipelined. */
  #shortestPipeline(job: Job): PooledConnection | undefined {
    if (!job.isPipelinable) return undefined;
    const now = performance.now();
    let shortest: PooledConnection | undefined;
    let depth = maxDepth(job);
    for (const connection of this.#all) {
      if (connection.attempts.length >= depth || !connection.admits(job, now)) continue;
      shortest = connection;
      depth = connection.attempts.length;
    }
    return shortest;
  }

  /** Checks the pipelines and the waiting reads as long as there are any. */
  #watchReads(): void {
    this.#readTimer ??= setTimeout(() => {
      this.#readTimer = undefined;
      this.#hedge();
      this.#admitReads();
      const isNeeded = this.#waitingReads.length > 0 || this.#all.some(({ attempts }) => attempts.length > 1);
      if (isNeeded) this.#watchReads();
    }, CHECK_READS_EVERY_MS);
  }

  /** Starts reads that waited for others, once those have been reading for long. */
  #admitReads(): void {
    while (this.#waitingReads.first && this.#mayRead()) {
      if (this.#idle.length === 0 && !this.#mayOpen) return;
      const next = this.#waitingReads.shift();
      if (next) this.#serve(next);
    }
  }

  /** Reads behind a late statement are tried a second time, on the next free connection. The first answer counts. */
  #hedge(): void {
    const now = performance.now();
    for (const connection of this.#all) {
      const [first, ...others] = connection.attempts;
      if (!first || others.length === 0 || !first.isLate(now)) continue;
      if (first.isCancelled && !connection.isCancelling) connection.cancel();
      for (const attempt of others) {
        if (attempt.isHedged || attempt.isCancelled || attempt.job.attempts >= MAX_ATTEMPTS) continue;
        attempt.isHedged = true;
        this.#seek(this.#waitingFor(attempt.job));
      }
    }
  }

  /** Finds connections whose server has vanished without closing them. */
  #checkBusy(): void {
    const now = performance.now();
    const { statementTimeoutMs = 0 } = this.#options;
    for (const connection of this.#all.slice()) {
      if (connection.wire.usable && connection.isDead(now, statementTimeoutMs)) this.#die(connection, now);
    }
  }

  /** Closed, and with it the idle ones, about which nothing better is known. */
  #die(connection: PooledConnection, now: number): void {
    const { target } = connection;
    const isSecond = this.#died.target === target && now - this.#died.at < SAME_CAUSE_MS;
    this.#died = { at: now, target };
    if (isSecond) this.#openings.suspect();
    connection.wire.destroy(new ConnectionSilent());
    for (const idle of this.#idle.slice()) this.#discard(idle);
    if (!isSecond) return;
    for (const other of this.#all.slice()) {
      if (other.target === target && other.isQuiet(now, QUIET_MS)) other.wire.destroy(new ConnectionSilent());
    }
  }

  #giveBack(connection: PooledConnection): void {
    const { wire } = connection;
    if (!wire.usable || !wire.idle || this.#closed || connection.isOver(performance.now())) {
      this.#discard(connection);
      this.#refill();
      return;
    }
    if (connection.isCancelling) {
      connection.afterCancel(() => this.#giveBack(connection));
      return;
    }
    const next = this.#nextWaiting();
    if (!next) {
      connection.idleSince = Date.now();
      this.#idle.push(connection);
      return;
    }
    // An even share of the waiting reads, so that the other connections find work too.
    const readers = Math.min(this.#maxReading, this.#all.length);
    const even = Math.ceil(this.#waitingReads.length / readers);
    const share = next.job ? Math.min(maxDepth(next.job), even) : even;
    next.grant(connection);
    while (connection.attempts.length > 0 && connection.attempts.length < share) {
      const { first } = this.#waitingReads;
      if (!first?.job || isBefore(this.#waitingOthers.first, first)) return;
      if (!first.job.isPipelinable || !connection.admits(first.job, performance.now())) return;
      this.#waitingReads.shift()?.grant(connection);
    }
  }

  /** Whose turn it is among those that may run now. */
  #nextWaiting(): Waiting | undefined {
    const other = this.#waitingOthers.first;
    const read = this.#waitingReads.first;
    if (read && !isBefore(other, read) && this.#mayRead()) return this.#waitingReads.shift();
    return this.#waitingOthers.shift();
  }

  /** One timer for all that wait: hardly any of them times out. */
  #watchWaiting(): void {
    if (this.#waitingTimer) return;
    const soonest = Math.min(this.#waitingReads.timesOutAt, this.#waitingOthers.timesOutAt);
    if (soonest === Number.POSITIVE_INFINITY) return;
    const { awaySince } = this.#openings;
    // Held since they came, but not for what was before the database was found away.
    const heldUntil =
      awaySince === undefined
        ? soonest
        : Math.max(soonest - this.#patienceMs, awaySince) + this.#failoverWaitMs;
    this.#waitingTimer = setTimeout(
      () => {
        this.#waitingTimer = undefined;
        this.#refuseLate();
        this.#watchWaiting();
      },
      Math.max(LEAST_WATCH_MS, Math.min(soonest, heldUntil) - performance.now()),
    );
  }

  #refuseLate(): void {
    const now = performance.now();
    const { awaySince } = this.#openings;
    const isAway = awaySince !== undefined && this.#all.length === 0;
    const refusal = isAway ? () => new DatabaseUnavailable(this.#lastFailure) : poolExhausted;
    const heldMs = this.#failoverWaitMs;
    const late = isAway && now - awaySince >= heldMs ? now + this.#patienceMs - heldMs : now;
    this.#waitingReads.refuseUntil(Math.max(now, late), refusal);
    this.#waitingOthers.refuseUntil(Math.max(now, late), refusal);
  }

  async #open(): Promise<PooledConnection> {
    const startedAt = performance.now();
    this.#openings.started();
    try {
      const opened = await openWire(this.#options, this.#options.onNotice);
      const connection = new PooledConnection(opened, this.#options.maxAgeMs);
      this.#all.push(connection);
      if (this.#openings.isAway) this.#admission.queued(performance.now());
      opened.wire.onLost = () => this.#lost(connection);
      this.#openings.succeeded(this.#all.length);
      return connection;
    } catch (error) {
      this.#lastFailure = error;
      this.#openings.failed(this.#all.length, startedAt);
      // Whoever waits is refused at another time now.
      clearTimeout(this.#waitingTimer);
      this.#waitingTimer = undefined;
      this.#watchWaiting();
      this.#watchOpenings();
      throw error;
    }
  }

  /** A refused opening is no refusal of the request, unless trying again cannot help. */
  #notOpened(waiting: Waiting, error: Error): void {
    if (waiting.isAbandoned === true || waiting.job?.isWanted === false) return;
    if (isTransient(error)) {
      this.#seekAgain(waiting);
      return;
    }
    const refusal = toCaller(new NeverSent(error), true);
    waiting.refuse(error instanceof Problem ? error : refusal);
    if (this.#all.length > 0) return;
    this.#waitingReads.refuseAll(() => refusal);
    this.#waitingOthers.refuseAll(() => refusal);
  }

  /** Opens a connection in place of a lost one, for the request that has waited longest. */
  #refill(): void {
    if (this.#closed || this.#waiting === 0 || !this.#mayOpen) return;
    this.#open().then(
      (connection) => {
        this.release(connection);
        // The first one after a pause: the others can be opened again, too.
        for (let missing = this.#waiting; missing > 0 && this.#mayOpen; missing -= 1) this.#refill();
      },
      () => {},
    );
  }

  /** Tries again to open connections, as long as somebody waits for one. */
  #watchOpenings(): void {
    const { nextAt } = this.#openings;
    if (nextAt === undefined || this.#openingTimer || this.#closed || this.#waiting === 0) return;
    this.#openingTimer = setTimeout(
      () => {
        this.#openingTimer = undefined;
        this.#refill();
        this.#watchOpenings();
      },
      Math.max(MIN_OPENING_PAUSE_MS, nextAt - performance.now()),
    );
  }

  /** A connection that ended while nobody used it. */
  #lost(connection: PooledConnection): void {
    if (this.#idle.includes(connection)) this.#discard(connection);
  }

  #discard(connection: PooledConnection): void {
    remove(this.#all, connection);
    remove(this.#idle, connection);
    connection.wire.destroy();
  }

  #reap(): void {
    const now = performance.now();
    for (const connection of this.#idle.filter((one) => one.isOver(now))) this.#discard(connection);
    if (this.#all.length < this.#options.minIdle) this.warm().catch(() => {});
    const oldest = Date.now() - this.#options.idleTimeoutMs;
    // The oldest idle ones are at the front; `pop` keeps the warm ones busy.
    while (this.#idle.length > this.#options.minIdle) {
      const [connection] = this.#idle;
      if (!connection || connection.idleSince > oldest) return;
      this.#discard(connection);
    }
  }
}

function remove<T>(list: T[], one: T): void {
  const at = list.indexOf(one);
  if (at >= 0) list.splice(at, 1);
}

/** What a server says while it starts, stops, is full or out of reach; not that it knows no such user or database. */
function isTransient(error: Error): boolean {
  if (error instanceof Problem) return false;
  if (!isDatabaseError(error)) return true;
  return isDatabaseError(error, 'shutdown', 'insufficient_resources', 'connection_exception');
}

/**
 * Pipeline depth for this statement: smaller when its mean latency is high, because what is still queued can move to
 * another connection or share its run with others.
 */
function maxDepth({ latency }: Job): number {
  return latency.longMean > SLOWER_MS ? MAX_DEPTH_OF_SLOWER : MAX_PIPELINE_DEPTH;
}

/** The server did not report how its work ended: whether a write was done is unknown. */
export class ConnectionSilent extends ConnectionLost {
  override name = 'ConnectionSilent';

  constructor() {
    super('the connection to PostgreSQL was closed: the server has fallen silent');
  }
}

const poolClosed = (): Error => new Error('the pool is closed');

function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
