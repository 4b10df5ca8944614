// Decides which connection runs what. A job gets an idle connection or a new one. If there is none, a read is pipelined
// behind quick reads on a busy connection: the server goes from one to the next without waiting for us, and several
// leave in one write. Everything else waits for a connection of its own.
// What keeps a slow statement from holding up those behind it: docs/decisions/0035; how many connections read: 0036.
import { Problem } from '../../problem/problem.ts';
import { openWire, type ConnectionSettings } from '../connection.ts';
import { isDatabaseError, NeverSent } from '../pg-error.ts';
import { Unreplayed } from '../replicas/replay-check.ts';
import type { OnSettled } from '../wire/wire.ts';
import { toCaller } from './failure/after-failure.ts';
import { DeathWatch } from './failure/death-watch.ts';
import { MAX_ATTEMPTS, nextAfter } from './failure/failed-attempt.ts';
import { abortOf, Job, type Cancellable, type JobOptions } from './job.ts';
import { LatencyEstimate } from './latency-estimate.ts';
import { Openings } from './failure/openings.ts';
import { maxDepth, shortestPipeline } from './pipelines.ts';
import { Attempt, PooledConnection } from './pooled-connection.ts';
import type { Sharer } from './sharer.ts';
import type { Waiting } from './wait-queue.ts';
import { WaitingRoom } from './waiting-room.ts';

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

/** A read that takes longer may be waiting for something other than a processor: others are let in beside it. */
const LONG_READ_MS = 100;
const CHECK_READS_EVERY_MS = 10;
const CHECK_BUSY_EVERY_MS = 250;
/** Connections to a standby are not all opened anew for each write that meets it. */
const LEAVE_EVERY_MS = 1_000;
const NAMES_LOST_WITHIN_MS = 60_000;
const ASK_AGAIN_MS = 250;
const MIN_OPENING_PAUSE_MS = 10;

/** An answer this recent shows that the database answers. */
const RECENT_ANSWER_MS = 2_000;

export type DatabaseAnswer = 'yes' | 'no' | 'busy';

export class ConnectionPool {
  readonly #options: ConnectionPoolOptions;
  readonly #maxReading: number;
  readonly #patienceMs: number;
  /** How long a request is held while the database cannot be reached. */
  readonly failoverWaitMs: number;
  readonly #all: PooledConnection[] = [];
  readonly #idle: PooledConnection[] = [];
  readonly #openings: Openings;
  readonly #waiting: WaitingRoom;
  readonly #deathWatch: DeathWatch;
  #openingToRead = 0;
  readonly #mayReadNow = (): boolean => this.#mayRead();
  #closed = false;
  readonly #reaper: NodeJS.Timeout;
  readonly #busyTimer: NodeJS.Timeout;
  /** `performance.now()` when a batch last ended. */
  #answeredAt = Number.NEGATIVE_INFINITY;
  #readTimer: NodeJS.Timeout | undefined;
  #openingTimer: NodeJS.Timeout | undefined;
  /** The last server that was left for another. */
  #left = { at: Number.NEGATIVE_INFINITY, target: '' };
  #nameLostAt = Number.NEGATIVE_INFINITY;

  constructor(options: ConnectionPoolOptions) {
    this.#options = options;
    this.#maxReading = Math.min(options.maxReading ?? options.max, options.max);
    this.#patienceMs = options.acquireTimeoutMs ?? 10_000;
    this.failoverWaitMs = options.failoverWaitMs ?? 5_000;
    this.#openings = new Openings(options.max);
    this.#waiting = new WaitingRoom({
      patienceMs: this.#patienceMs,
      failoverWaitMs: this.failoverWaitMs,
      places: options.queue ?? Number.POSITIVE_INFINITY,
      openings: this.#openings,
    });
    this.#deathWatch = new DeathWatch(options.statementTimeoutMs ?? 0);
    this.#reaper = setInterval(() => this.#reap(), Math.min(options.idleTimeoutMs, 30_000));
    this.#reaper.unref();
    this.#busyTimer = setInterval(() => this.#checkBusy(), CHECK_BUSY_EVERY_MS);
    this.#busyTimer.unref();
  }

  get size(): { open: number; idle: number; waiting: number } {
    return { open: this.#all.length, idle: this.#idle.length, waiting: this.#waiting.length };
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
    return this.#waiting.refusal(this.#all.length, sharer, cancellable);
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
          this.#waiting.remove(waiting);
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
    const opening: Array<Promise<void>> = [];
    const { minIdle } = this.#options;
    while (this.#all.length + this.#openings.underWay < minIdle && this.#mayOpen) {
      // Each for itself: one that is refused must not keep the others from being used.
      opening.push(this.#open().then((connection) => this.release(connection)));
    }
    await Promise.all(opening);
  }

  /**
   * Whether requests get an answer from the database: known from a recent answer, or tried on a connection like theirs,
   * before all that wait. `busy`: every connection is, and no other may be opened.
   */
  async answers(withinMs: number): Promise<DatabaseAnswer> {
    if (performance.now() - this.#answeredAt < RECENT_ANSWER_MS) return 'yes';
    if (this.#openings.isAway && this.#openings.underWay === 0 && !this.#mayOpen) return 'no';
    if (this.#idle.length === 0 && this.#all.length > 0 && !this.#mayOpen) return 'busy';
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
      this.#seekAgain(this.#waitingFor(job));
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
    clearTimeout(this.#readTimer);
    clearTimeout(this.#openingTimer);
    this.#waiting.stop();
    this.#waiting.refuseAll(poolClosed);
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
    this.#waiting.add(waiting, this.#all.length);
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
    this.#waiting.addFront(waiting);
    this.#watchOpenings();
    if (isRead) this.#watchReads();
  }

  /** Pipelined where it may not have a connection of its own. */
  #serveRead(waiting: Waiting): boolean {
    // Those that wait come first.
    if (this.#waiting.firstRead) return false;
    if (this.#mayRead() && this.#serve(waiting)) return true;
    const connection =
      waiting.job && !this.#waiting.hasOthers ? shortestPipeline(this.#all, waiting.job) : undefined;
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
    this.#waiting.ended();
    if (startedAt > 0 && connection.wire.usable) {
      this.#answeredAt = performance.now();
      // What a replica did not even begin says nothing about how long it takes.
      if (!(error instanceof Unreplayed)) job.latency.record(this.#answeredAt - startedAt, isFirst);
    }
    const next =
      error === undefined || this.#closed ? 'answer' : nextAfter(attempt, error, this.failoverWaitMs);
    if (attempt.batch?.lostName === true) this.#countLostName();
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
  #countLostName(): void {
    const now = performance.now();
    if (now - this.#nameLostAt < NAMES_LOST_WITHIN_MS) for (const one of this.#all) one.isLeaving = true;
    this.#nameLostAt = now;
  }

  /** A write met a server that takes none: is that server a standby? Then the primary is somewhere else. */
  #askForPrimary({ job, connection }: Attempt, error: Error): void {
    connection.wire.send([{ text: 'select pg_is_in_recovery()', values: [] }], (failure, results) => {
      const isStandby = results[0]?.rows[0]?.[0]?.toString() === 't';
      if (isStandby) this.#leave(connection);
      this.release(connection);
      const now = performance.now();
      if (job.failingSince === 0) job.failingSince = now;
      const isInTime = now - job.failingSince < this.failoverWaitMs;
      if (!isInTime || (!isStandby && failure === undefined)) this.#answer(job, error);
      else setTimeout(() => this.#repeat(job), Math.min(ASK_AGAIN_MS, this.failoverWaitMs));
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

  /** Checks the pipelines and the waiting reads as long as there are any. */
  #watchReads(): void {
    this.#readTimer ??= setTimeout(() => {
      this.#readTimer = undefined;
      this.#hedge();
      this.#admitReads();
      const isNeeded = this.#waiting.reads > 0 || this.#all.some(({ attempts }) => attempts.length > 1);
      if (isNeeded) this.#watchReads();
    }, CHECK_READS_EVERY_MS);
  }

  /** Starts reads that waited for others, once those have been reading for long. */
  #admitReads(): void {
    while (this.#waiting.firstRead && this.#mayRead()) {
      if (this.#idle.length === 0 && !this.#mayOpen) return;
      const next = this.#waiting.shiftRead();
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

  /** A server that has lost a connection: nothing better is known about the idle ones to it. */
  #checkBusy(): void {
    for (const { target, isGone } of this.#deathWatch.check(this.#all)) {
      if (isGone) this.#openings.suspect();
      for (const one of this.#idle.filter((idle) => idle.target === target)) this.#discard(one);
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
    const next = this.#waiting.next(this.#mayReadNow);
    if (!next) {
      connection.idleSince = Date.now();
      this.#idle.push(connection);
      return;
    }
    // An even share of the waiting reads, so that the other connections find work too.
    const readers = Math.min(this.#maxReading, this.#all.length);
    const even = Math.ceil(this.#waiting.reads / readers);
    const share = next.job ? Math.min(maxDepth(next.job), even) : even;
    next.grant(connection);
    while (connection.attempts.length > 0 && connection.attempts.length < share) {
      const job = this.#waiting.nextRead?.job;
      if (job?.isPipelinable !== true || !connection.admits(job, performance.now())) return;
      this.#waiting.shiftRead()?.grant(connection);
    }
  }

  async #open(): Promise<PooledConnection> {
    const startedAt = performance.now();
    this.#openings.started();
    try {
      const opened = await openWire(this.#options, this.#options.onNotice);
      const connection = new PooledConnection(opened, this.#options.maxAgeMs);
      this.#all.push(connection);
      opened.wire.onLost = () => this.#lost(connection);
      this.#opened();
      return connection;
    } catch (error) {
      this.#openings.failed(this.#all.length, startedAt, error);
      this.#waiting.watchAgain();
      clearTimeout(this.#openingTimer);
      this.#openingTimer = undefined;
      this.#watchOpenings();
      throw error;
    }
  }

  #opened(): void {
    const { nextAt, isAway } = this.#openings;
    this.#openings.succeeded(this.#all.length);
    if (nextAt === undefined) return;
    if (isAway) this.#waiting.resumed();
    // There may be room for more now.
    setImmediate(() => {
      for (let missing = this.#waiting.length; missing > 0 && this.#mayOpen; missing -= 1) this.#refill();
      this.#watchOpenings();
    });
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
    if (this.#all.length === 0) this.#waiting.refuseAll(() => refusal);
  }

  /** Opens a connection in place of a lost one, for the request that has waited longest. */
  #refill(): void {
    if (this.#closed || this.#waiting.length === 0 || !this.#mayOpen) return;
    this.#open().then(
      (connection) => this.release(connection),
      () => {},
    );
  }

  /** Tries again to open connections, as long as somebody waits for one. */
  #watchOpenings(): void {
    const { nextAt, underWay } = this.#openings;
    // What is under way comes back here, or ends the need.
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

const poolClosed = (): Error => new Error('the pool is closed');

function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
