// Decides which connection runs what. A job gets an idle connection or a new one. If there is none, a read is pipelined
// behind quick reads on a busy connection: the server goes from one to the next without waiting for us, and several
// leave in one write. Everything else waits for a connection of its own.
// What keeps a slow statement from holding up those behind it: docs/decisions/0035; how many connections read: 0036.
import { Problem } from '../../problem/problem.ts';
import { openWire, type ConnectionSettings } from '../connection.ts';
import { ConnectionLost, isDatabaseError } from '../pg-error.ts';
import type { OnSettled } from '../wire/wire.ts';
import { abortOf, Job, type Cancellable, type JobOptions } from './job.ts';
import { LatencyEstimate } from './latency-estimate.ts';
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
/** How long after its deadline, or after its cancel, the server may take to report the end of a statement. */
const OVERDUE_MS = 3_000;
/** An overdue connection is dead after this many checks in a row without a byte. */
const MAX_SILENT_CHECKS = 4;
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
  #opening = 0;
  #openingToRead = 0;
  #closed = false;
  readonly #reaper: NodeJS.Timeout;
  readonly #busyTimer: NodeJS.Timeout;
  /** `performance.now()` when a batch last ended. */
  #answeredAt = Number.NEGATIVE_INFINITY;
  #waitingTimer: NodeJS.Timeout | undefined;
  #readTimer: NodeJS.Timeout | undefined;

  constructor(options: ConnectionPoolOptions) {
    this.#options = options;
    this.#maxReading = Math.min(options.maxReading ?? options.max, options.max);
    this.#admission = new Admission(options.queue ?? Number.POSITIVE_INFINITY);
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
    const patienceMs = Math.min(this.#patienceMs, (cancellable?.endsAt ?? Number.POSITIVE_INFINITY) - now);
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
        grant: (connection) => (waiting.isAbandoned ? this.#giveBack(connection) : grant(connection)),
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
    for (const connection of this.#idle.splice(0)) this.#discard(connection);
    while (this.#all.length > 0 || this.#opening > 0) {
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
    this.#waitingReads.refuseAll(poolClosed);
    this.#waitingOthers.refuseAll(poolClosed);
  }

  get #patienceMs(): number {
    return this.#options.acquireTimeoutMs ?? 10_000;
  }

  #deadline(): number {
    return performance.now() + this.#patienceMs;
  }

  #waitingFor(job: Job): Waiting {
    return {
      job,
      sharer: job.sharer,
      cancellable: job.cancellable,
      until: this.#deadline(),
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
        (error: unknown) => waiting.refuse(toError(error)),
      );
    return true;
  }

  get #mayOpen(): boolean {
    return this.#all.length + this.#opening < this.#options.max;
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
      job.isNameless,
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
    const retries = error !== undefined && this.#mayRetry(attempt, error);
    // The next statement is sent before the results of this one are handled.
    if (connection.attempts.length === 0) this.release(connection);
    if (retries) this.#seek(this.#waitingFor(job));
    else job.settle(error, results);
  }

  /** A read that failed for a reason other than itself, or anything that never began because its name was unknown. */
  #mayRetry({ job, connection, startedAt, isCancelled, batch }: Attempt, error: Error): boolean {
    if (!job.isWanted || isCancelled || this.#closed) return false;
    if (job.attempts >= MAX_ATTEMPTS) return false;
    if (batch?.lostName === true && !job.isNameless) {
      job.isNameless = true;
      return true;
    }
    if (!job.isPipelinable) return false;
    const neverStarted = startedAt === 0 && !connection.wire.usable;
    const wrongCancel = isDatabaseError(error, 'query_canceled') && connection.wasCancelled;
    return neverStarted || wrongCancel;
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

  /**
   * Finds connections whose server has vanished without closing them: neither the deadline of a statement nor a cancel
   * reaches it. They are closed, and with them the idle ones, about which nothing better is known.
   */
  #checkBusy(): void {
    const now = performance.now();
    for (const connection of this.#all.slice()) {
      if (!connection.isOverdue(now, this.#options.statementTimeoutMs ?? 0, OVERDUE_MS)) continue;
      if (connection.silentChecks < MAX_SILENT_CHECKS) continue;
      connection.wire.destroy(new ConnectionSilent());
      for (const idle of this.#idle.splice(0)) this.#discard(idle);
    }
  }

  #giveBack(connection: PooledConnection): void {
    if (!connection.wire.usable || !connection.wire.idle || this.#closed) {
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
    const ends = Math.min(this.#waitingReads.timesOutAt, this.#waitingOthers.timesOutAt);
    if (ends === Number.POSITIVE_INFINITY) return;
    this.#waitingTimer = setTimeout(
      () => {
        this.#waitingTimer = undefined;
        const now = performance.now();
        this.#waitingReads.refuseUntil(now, poolExhausted);
        this.#waitingOthers.refuseUntil(now, poolExhausted);
        this.#watchWaiting();
      },
      Math.max(LEAST_WATCH_MS, ends - performance.now()),
    );
  }

  async #open(): Promise<PooledConnection> {
    this.#opening += 1;
    try {
      const connection = new PooledConnection(await openWire(this.#options, this.#options.onNotice));
      this.#all.push(connection);
      return connection;
    } catch (error) {
      // Otherwise those that wait for a connection might wait for one that nobody opens.
      this.#nextWaiting()?.refuse(toError(error));
      throw error;
    } finally {
      this.#opening -= 1;
    }
  }

  /** Opens a connection in place of a lost one, for the request that has waited longest. */
  #refill(): void {
    if (this.#closed || this.#waiting === 0 || !this.#mayOpen) return;
    this.#open().then(
      (connection) => this.release(connection),
      () => {},
    );
  }

  #discard(connection: PooledConnection): void {
    const at = this.#all.indexOf(connection);
    if (at >= 0) this.#all.splice(at, 1);
    connection.wire.destroy();
  }

  #reap(): void {
    const oldest = Date.now() - this.#options.idleTimeoutMs;
    // The oldest idle ones are at the front; `pop` keeps the warm ones busy.
    while (this.#idle.length > this.#options.minIdle) {
      const [connection] = this.#idle;
      if (!connection || connection.idleSince > oldest) return;
      this.#idle.shift();
      this.#discard(connection);
    }
  }
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
