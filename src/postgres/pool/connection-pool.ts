// Chooses the connection for each batch.
//
// The life of a batch:
//
//   run ──> #seek ──> #serve ──> #start ──> the server ──> #ended ──> settle
//             │         ^                                    │
//             v         │                                    ├──> #returnConnection: it serves the next batch
//        the waiting ───┘                                    └──> #repeat: once more, before all waiting batches
//
// A job gets an idle connection or a new one. If there is none, a read is pipelined behind quick reads on a busy
// connection: the server goes from one to the next without waiting for us, and several leave in one write. Everything
// else waits for an exclusive connection.
// Reads behind a slow statement: docs/decisions/0035. After a failure: 0084.
// After a refused opening: 0089.
import { Problem } from '../../problem/problem.ts';
import { isDatabaseError, NeverSent } from '../pg-error.ts';
import { Unreplayed } from '../replicas/replay-check.ts';
import type { OnSettled, WireResult } from '../wire/wire.ts';
import { toCaller } from './failure/after-failure.ts';
import { DeathWatch } from './failure/death-watch.ts';
import { MAX_ATTEMPTS, nextAfter } from './failure/failed-attempt.ts';
import { Connections, type ConnectionsOptions } from './connections.ts';
import { ConnectionShare, holderKey } from './connection-share.ts';
import { abortError, Job, type Cancellable, type JobOptions } from './job.ts';
import { RetiredServers } from './failure/retired-servers.ts';
import { LatencyEstimate } from './latency-estimate.ts';
import { maxDepth, shortestPipeline } from './pipelines.ts';
import { Attempt, type PooledConnection } from './pooled-connection.ts';
import { ReadLimit } from './read-limit.ts';
import type { CallerIdentity } from '../../lib/limits/caller-key.ts';
import type { Waiting } from './wait-queue.ts';
import { JobQueue } from './job-queue.ts';

export type ConnectionPoolOptions = ConnectionsOptions & {
  /** Maximum number of connections that read at once, not counting long-running reads. Default: all. */
  readonly maxReading?: number | undefined;
  /** Connections kept for callers that have none. Default: a quarter, at least two. */
  readonly reserve?: number | undefined;
  /** How long a request may wait for a free connection, in milliseconds. */
  readonly acquireTimeoutMs?: number | undefined;
  /** Maximum number of waiting requests, half of which can belong to one caller. Default: unlimited. */
  readonly queue?: number | undefined;
  /** How long a request waits while the database is unreachable, in milliseconds. */
  readonly failoverWaitMs?: number | undefined;
  /** Called for each run that took at least `ms` milliseconds on its connection. */
  readonly slow?: { readonly ms: number; readonly seen: OnSlow } | undefined;
  /** Called after each run with its wait for a connection and its duration. */
  readonly ran?: OnRan | undefined;
  /** Called when a write reaches a standby, so that other servers are tried first. */
  readonly onNotPrimary?: ((target: string) => void) | undefined;
};

type OnRan = (
  job: Job,
  waitedMs: number,
  ms: number,
  error: Error | undefined,
  results: readonly WireResult[],
) => void;
type OnSlow = (job: Job, ms: number, error: Error | undefined, results: readonly WireResult[]) => void;

const CHECK_READS_EVERY_MS = 10;
const CHECK_BUSY_EVERY_MS = 250;
const ASK_AGAIN_MS = 250;
const MIN_OPENING_PAUSE_MS = 10;

/** A response younger than this counts as a successful health check. */
const RECENT_ANSWER_MS = 2_000;

export type DatabaseAnswer = 'yes' | 'no' | 'busy';

export class ConnectionPool {
  readonly #patienceMs: number;
  /** How long a request waits while the database is unreachable, in milliseconds. */
  readonly failoverWaitMs: number;
  readonly #connections: Connections;
  readonly #openings: Connections['openings'];
  readonly #waiting: JobQueue;
  readonly #readLimit: ReadLimit;
  readonly #share: ConnectionShare;
  readonly #retiredServers: RetiredServers;
  readonly #deathWatch: DeathWatch;
  readonly #slowMs: number;
  readonly #onSlow: OnSlow | undefined;
  readonly #onRan: OnRan | undefined;
  #closed = false;
  readonly #reaper: NodeJS.Timeout;
  readonly #busyTimer: NodeJS.Timeout;
  /** `performance.now()` when a batch last ended. */
  #answeredAt = Number.NEGATIVE_INFINITY;
  #readTimer: NodeJS.Timeout | undefined;
  #openingTimer: NodeJS.Timeout | undefined;

  constructor(options: ConnectionPoolOptions) {
    this.#patienceMs = options.acquireTimeoutMs ?? 10_000;
    this.failoverWaitMs = options.failoverWaitMs ?? 5_000;
    this.#connections = new Connections(options, {
      onRoom: (wasAway) => this.#openMore(wasAway),
      onRefused: () => this.#openLater(),
    });
    this.#openings = this.#connections.openings;
    this.#readLimit = new ReadLimit(this.#connections, options.max, options.maxReading);
    this.#share = new ConnectionShare(this.#connections, options.reserve);
    this.#retiredServers = new RetiredServers(this.#connections, options.onNotPrimary);
    this.#waiting = new JobQueue({
      patienceMs: this.#patienceMs,
      failoverWaitMs: this.failoverWaitMs,
      places: options.queue ?? Number.POSITIVE_INFINITY,
      openings: this.#openings,
    });
    this.#deathWatch = new DeathWatch(options.statementTimeoutMs ?? 0);
    this.#slowMs = options.slow?.ms ?? Number.POSITIVE_INFINITY;
    this.#onSlow = options.slow?.seen;
    this.#onRan = options.ran;
    this.#reaper = setInterval(() => this.#tidy(), Math.min(options.idleTimeoutMs, 30_000));
    this.#reaper.unref();
    this.#busyTimer = setInterval(() => this.#checkBusy(), CHECK_BUSY_EVERY_MS);
    this.#busyTimer.unref();
  }

  get size(): { open: number; idle: number; waiting: number } {
    return {
      open: this.#connections.all.length,
      idle: this.#connections.idle,
      waiting: this.#waiting.length,
    };
  }

  /** Takes callbacks instead of returning a promise, because microtasks cost measurable time at this request rate. */
  run(options: JobOptions): void {
    const { cancellable, settle } = options;
    if (cancellable?.aborted) {
      settle(abortError(cancellable), []);
      return;
    }
    this.#seek(this.#waitingFor(new Job(options)));
  }

  /**
   * Returns the rejection of a request that would have to wait although the queue is full, or would time out there.
   */
  refusal(sharer?: CallerIdentity, cancellable?: Cancellable): Problem | undefined {
    const holder = { sharer, cancellable };
    const isServed = this.#hasConnection && this.#share.admits(holder);
    return isServed ? undefined : this.#waiting.refusal(this.#connections.all.length, holder);
  }

  /** Acquires a connection for one caller's exclusive use, until `release`. */
  acquire(cancellable?: Cancellable, sharer?: CallerIdentity): Promise<PooledConnection> {
    return new Promise((grant, refuse) => {
      if (cancellable?.aborted) {
        refuse(abortError(cancellable));
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
            this.#returnConnection(connection);
            return;
          }
          connection.hold(waiting);
          grant(connection);
        },
        refuse,
      };
      if (cancellable) {
        cancellable.cancel = () => {
          waiting.isAbandoned = true;
          this.#waiting.remove(waiting);
          refuse(abortError(cancellable));
        };
      }
      this.#seek(waiting);
    });
  }

  release(connection: PooledConnection): void {
    const { wire } = connection;
    connection.free();
    if (wire.usable && !wire.idle) {
      // A batch failed inside BEGIN: the transaction is still open and must not reach the next caller.
      wire.send([{ text: 'rollback', values: [] }], () => this.#returnConnection(connection));
    } else {
      this.#returnConnection(connection);
    }
  }

  /** Opens the minimum of idle connections ahead of the first requests. */
  warm(): Promise<void> {
    return this.#connections.openMinimum((connection) => this.release(connection));
  }

  /** Reads may be answered by a standby, which may not have all that was acknowledged. */
  get readsFromStandIn(): boolean {
    return this.#connections.leadToStandIn;
  }

  /**
   * Whether requests get a response from the database. Uses a recent response, or tries a connection before all
   * waiting requests. `busy`: every connection is in use, and no other can be opened.
   */
  async answers(withinMs: number): Promise<DatabaseAnswer> {
    if (performance.now() - this.#answeredAt < RECENT_ANSWER_MS) return 'yes';
    if (this.#openings.isAway && this.#openings.underWay === 0 && !this.#connections.canOpen) return 'no';
    if (this.#connections.idle === 0 && this.#connections.all.length > 0 && !this.#connections.canOpen)
      return 'busy';
    return await new Promise((resolve) => {
      const attempt: Cancellable = { cancel: undefined };
      const timer = setTimeout(() => {
        resolve('no');
        attempt.cancel?.();
      }, withinMs);
      const job = new Job({
        statements: [{ text: 'select 1', values: [] }],
        isRead: false,
        isPipelinable: false,
        isRepeatable: false,
        latency: new LatencyEstimate(),
        cancellable: attempt,
        settle: (error) => {
          clearTimeout(timer);
          resolve(error === undefined ? 'yes' : 'no');
        },
      });
      this.#retryConnection(this.#waitingFor(job));
    });
  }

  /** Rejects new work and closes each connection as soon as it is idle. */
  async close(): Promise<void> {
    this.#stop();
    this.#connections.discardIdle(() => true);
    while (this.#connections.all.length > 0 || this.#openings.underWay > 0) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  /** Closes at once: running statements are cut off with their connections. */
  destroy(): void {
    this.#stop();
    this.#connections.discardAll();
  }

  #tidy(): void {
    this.#connections.discardOld();
    this.warm().catch(() => {});
  }

  /** A connection is idle, or another can be opened. */
  get #hasConnection(): boolean {
    return this.#connections.idle > 0 || this.#connections.canOpen;
  }

  #stop(): void {
    this.#closed = true;
    clearInterval(this.#reaper);
    clearInterval(this.#busyTimer);
    clearTimeout(this.#readTimer);
    clearTimeout(this.#openingTimer);
    this.#waiting.stop();
    this.#waiting.refuseAll(poolClosed);
  }

  #deadline(): number {
    return performance.now() + this.#patienceMs;
  }

  #waitingFor(job: Job): Waiting {
    if (job.until === 0) {
      job.askedAt = performance.now();
      job.until = job.askedAt + this.#patienceMs;
    }
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
    this.#waiting.add(waiting, this.#connections.all.length);
    this.#watchOpenings();
    if (isRead) this.#watchReads();
  }

  /** Queues a batch that had its turn before all others, with its remaining time. */
  #retryConnection(waiting: Waiting): void {
    if (this.#closed) {
      waiting.refuse(poolClosed());
      return;
    }
    const isRead = waiting.job?.isRead === true;
    if ((!isRead || this.#readLimit.isOpen()) && this.#serve(waiting)) return;
    this.#waiting.addFront(waiting);
    this.#watchOpenings();
    if (isRead) this.#watchReads();
  }

  /** Pipelines the read if it cannot have an exclusive connection. */
  #serveRead(waiting: Waiting): boolean {
    // Waiting reads come first, except those of callers that have used up their share.
    const admits = this.#waiting.length > 0 ? this.#share.admission() : undefined;
    const isWithinShare = admits === undefined || admits(holderKey(waiting));
    if (this.#waiting.firstRead(isWithinShare ? admits : undefined)) return false;
    if (this.#readLimit.isOpen() && this.#serve(waiting)) return true;
    const connection =
      waiting.job && !this.#waiting.hasOthers(isWithinShare ? admits : undefined)
        ? shortestPipeline(this.#connections.all, waiting.job)
        : undefined;
    if (connection) waiting.grant(connection);
    return connection !== undefined;
  }

  /** Returns true if the batch got a connection or will get the one that is being opened. */
  #serve(waiting: Waiting): boolean {
    if (!this.#share.admits(waiting)) return false;
    const idle = this.#connections.acquireIdle();
    if (idle) {
      waiting.grant(idle);
      return true;
    }
    if (!this.#connections.canOpen) return false;
    const read = waiting.job?.isRead === true ? this.#readLimit.opening() : undefined;
    const opened = this.#share.opening(waiting);
    this.#connections
      .open()
      .finally(() => {
        read?.();
        opened();
      })
      .then(
        (connection) => waiting.grant(connection),
        (error: unknown) => this.#notOpened(waiting, toError(error)),
      );
    return true;
  }

  #start(job: Job, connection: PooledConnection): void {
    if (!job.isWanted) {
      // Its callers left while the connection was being opened.
      if (connection.attempts.length === 0) this.#returnConnection(connection);
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
    this.#waiting.ended();
    if (startedAt > 0 && connection.wire.usable) {
      this.#answeredAt = performance.now();
      // A batch that the replica rejected before it began gives no latency.
      const ms = this.#answeredAt - startedAt;
      if (!(error instanceof Unreplayed)) job.latency.record(ms, isFirst);
      if (!job.isSettled) job.took(ms);
      if (ms >= this.#slowMs) this.#onSlow?.(job, ms, error, results);
      this.#onRan?.(job, startedAt - job.askedAt, ms, error, results);
    }
    const next =
      error === undefined || this.#closed ? 'answer' : nextAfter(attempt, error, this.failoverWaitMs);
    if (attempt.batch?.lostName === true) this.#retiredServers.countLostName();
    if (error !== undefined && next === 'ask') {
      this.#askForPrimary(attempt, error);
      return;
    }
    // Sends the next statement before this one's results are handled.
    if (connection.attempts.length === 0) this.release(connection);
    if (error === undefined) job.settle(error, results);
    else if (next === 'answer') this.#answer(job, error);
    else if (next === 'again-nameless') this.#repeat(job);
    // Connections that died together with this one are detected only after this turn of the event loop.
    else setImmediate(() => this.#repeat(job));
  }

  /** Serves the next batch with the connection. */
  #returnConnection(connection: PooledConnection): void {
    const { wire } = connection;
    if (!wire.usable || !wire.idle || this.#closed || connection.isOver(performance.now())) {
      this.#connections.discard(connection);
      this.#refill();
      return;
    }
    if (connection.isCancelling) {
      connection.afterCancel(() => this.#returnConnection(connection));
      return;
    }
    const next =
      this.#waiting.length === 0
        ? undefined
        : this.#waiting.next(this.#readLimit.isOpen, this.#share.admission(1));
    if (!next) {
      this.#connections.rest(connection);
      return;
    }
    // An equal share of the waiting reads, so that other connections get work too.
    const readers = Math.min(this.#readLimit.most, this.#connections.all.length);
    const even = Math.ceil(this.#waiting.reads / readers);
    const share = next.job ? Math.min(maxDepth(next.job), even) : even;
    next.grant(connection);
    while (connection.attempts.length > 0 && connection.attempts.length < share) {
      const job = this.#waiting.nextRead?.job;
      if (job?.isPipelinable !== true || !connection.admits(job, performance.now())) return;
      this.#waiting.shiftRead()?.grant(connection);
    }
  }

  #answer(job: Job, error: Error): void {
    job.settle(toCaller(error, job.isRead), []);
  }

  /** Runs the job again, with a new wait for a connection. */
  #repeat(job: Job): void {
    if (!job.isWanted || job.isRunning) return;
    job.until = 0;
    this.#retryConnection(this.#waitingFor(job));
  }

  /** Handles a write on a read-only server. If the server is a standby, the primary is another one. */
  #askForPrimary({ job, connection }: Attempt, error: Error): void {
    this.#retiredServers.checkIsStandby(connection, (kind) => {
      this.release(connection);
      const now = performance.now();
      if (job.failingSince === 0) job.failingSince = now;
      const isInTime = now - job.failingSince < this.failoverWaitMs;
      if (!isInTime || kind === 'primary') this.#answer(job, error);
      else setTimeout(() => this.#repeat(job), Math.min(ASK_AGAIN_MS, this.failoverWaitMs));
    });
  }

  /** Checks the pipelines and the waiting reads while there are any. */
  #watchReads(): void {
    this.#readTimer ??= setTimeout(() => {
      this.#readTimer = undefined;
      this.#hedge();
      this.#admitReads();
      const isNeeded =
        this.#waiting.reads > 0 || this.#connections.all.some(({ attempts }) => attempts.length > 1);
      if (isNeeded) this.#watchReads();
    }, CHECK_READS_EVERY_MS);
  }

  /** Starts waiting reads when running ones take long. */
  #admitReads(): void {
    while (this.#hasConnection && this.#waiting.reads > 0 && this.#readLimit.isOpen()) {
      const next = this.#waiting.shiftRead(this.#share.admission());
      if (!next) return;
      this.#serve(next);
    }
  }

  /** Repeats reads behind a late statement on the next free connection. The first response counts. */
  #hedge(): void {
    const now = performance.now();
    for (const connection of this.#connections.all) {
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

  /** Marks idle connections as unchecked when their server has lost another connection. */
  #checkBusy(): void {
    this.#retiredServers.retireFallbackStandbys();
    for (const { target, isGone } of this.#deathWatch.check(this.#connections.all)) {
      if (isGone) this.#openings.suspect();
      this.#connections.discardIdle((idle) => idle.target === target);
    }
  }

  /** There may be room for more connections now. */
  #openMore(wasAway: boolean): void {
    if (wasAway) this.#waiting.resumed();
    setImmediate(() => {
      for (let missing = this.#waiting.length; missing > 0 && this.#connections.canOpen; missing -= 1) {
        this.#refill();
      }
      this.#watchOpenings();
    });
  }

  /** A refused opening changes the time of the next attempt and the timeouts of the waiting batches. */
  #openLater(): void {
    this.#waiting.watchAgain();
    clearTimeout(this.#openingTimer);
    this.#openingTimer = undefined;
    this.#watchOpenings();
  }

  /** A refused opening does not reject the request, unless a retry cannot help. */
  #notOpened(waiting: Waiting, error: Error): void {
    if (waiting.isAbandoned === true || waiting.job?.isWanted === false) return;
    if (isTransient(error)) {
      this.#retryConnection(waiting);
      return;
    }
    const refusal = toCaller(new NeverSent(error), true);
    waiting.refuse(error instanceof Problem ? error : refusal);
    if (this.#connections.all.length === 0) this.#waiting.refuseAll(() => refusal);
  }

  /** Replaces a lost connection, for the request that has waited longest. */
  #refill(): void {
    if (this.#closed || this.#waiting.length === 0 || !this.#connections.canOpen) return;
    this.#connections.open().then(
      (connection) => this.release(connection),
      () => {},
    );
  }

  /** Retries openings while a batch waits for a connection. */
  #watchOpenings(): void {
    const { nextAt, underWay } = this.#openings;
    // A pending opening calls this again, or ends the need.
    if (nextAt === undefined || underWay > 0 || this.#openingTimer) return;
    if (this.#closed || this.#waiting.length === 0) return;
    this.#openingTimer = setTimeout(
      () => {
        this.#openingTimer = undefined;
        this.#refill();
        this.#watchOpenings();
      },
      Math.max(MIN_OPENING_PAUSE_MS, nextAt - performance.now()),
    );
  }
}

/**
 * Whether a server reports this while it starts, stops, is full or unreachable; false for an unknown user or
 * database.
 */
function isTransient(error: Error): boolean {
  if (error instanceof Problem) return false;
  if (!isDatabaseError(error)) return true;
  return isDatabaseError(error, 'shutdown', 'insufficient_resources', 'connection_exception');
}

const poolClosed = (): Error => new Error('the pool is closed');

function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
