// Decides which connection runs what.
//
// The life of a batch:
//
//   run ──> #seek ──> #serve ──> #start ──> the server ──> #ended ──> settle
//             │         ^                                    │
//             v         │                                    ├──> #giveBack: the connection serves whoever is next
//        the waiting ───┘                                    └──> #repeat: once more, before all that wait
//
// A job gets an idle connection or a new one. If there is none, a read is pipelined behind quick reads on a busy
// connection: the server goes from one to the next without waiting for us, and several leave in one write. Everything
// else waits for a connection of its own.
// What keeps a slow statement from holding up those behind it: docs/decisions/0035; what follows a failure: 0084; what a
// refused opening means: 0089.
import { Problem } from '../../problem/problem.ts';
import { isDatabaseError, NeverSent } from '../pg-error.ts';
import { Unreplayed } from '../replicas/replay-check.ts';
import type { OnSettled, WireResult } from '../wire/wire.ts';
import { toCaller } from './failure/after-failure.ts';
import { DeathWatch } from './failure/death-watch.ts';
import { MAX_ATTEMPTS, nextAfter } from './failure/failed-attempt.ts';
import { Connections, type ConnectionsOptions } from './connections.ts';
import { abortOf, Job, type Cancellable, type JobOptions } from './job.ts';
import { LeftServers } from './failure/left-servers.ts';
import { LatencyEstimate } from './latency-estimate.ts';
import { maxDepth, shortestPipeline } from './pipelines.ts';
import { Attempt, type PooledConnection } from './pooled-connection.ts';
import { ReadLimit } from './read-limit.ts';
import type { Sharer } from './sharer.ts';
import type { Waiting } from './wait-queue.ts';
import { WaitingRoom } from './waiting-room.ts';

export type ConnectionPoolOptions = ConnectionsOptions & {
  /** Most connections that read at once, not counting those that have been reading for long. Default: all. */
  readonly maxReading?: number | undefined;
  /** How long a request may wait for a free connection, in milliseconds. */
  readonly acquireTimeoutMs?: number | undefined;
  /** Most requests that wait for a connection; of one caller half of them. Default: any number. */
  readonly queue?: number | undefined;
  /** How long a request is held while the database cannot be reached, in milliseconds. */
  readonly failoverWaitMs?: number | undefined;
  /** Told of each run that took that many milliseconds or longer on its connection. */
  readonly slow?: { readonly ms: number; readonly seen: OnSlow } | undefined;
  /** Told of each run that has ended: how long it waited for its connection, and how long it took there. */
  readonly ran?: OnRan | undefined;
  /** A server that was written to is a standby: others are to be tried before it. */
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

/** An answer this recent shows that the database answers. */
const RECENT_ANSWER_MS = 2_000;

export type DatabaseAnswer = 'yes' | 'no' | 'busy';

export class ConnectionPool {
  readonly #patienceMs: number;
  /** How long a request is held while the database cannot be reached. */
  readonly failoverWaitMs: number;
  readonly #connections: Connections;
  readonly #openings: Connections['openings'];
  readonly #waiting: WaitingRoom;
  readonly #readLimit: ReadLimit;
  readonly #leftServers: LeftServers;
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
    this.#leftServers = new LeftServers(this.#connections, options.onNotPrimary);
    this.#waiting = new WaitingRoom({
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
    return this.#waiting.refusal(this.#connections.all.length, sharer, cancellable);
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
  warm(): Promise<void> {
    return this.#connections.openMinimum((connection) => this.release(connection));
  }

  /** Reads may be answered by a standby, which may not have all that was acknowledged. */
  get readsFromStandIn(): boolean {
    return this.#connections.leadToStandIn;
  }

  /**
   * Whether requests get an answer from the database: known from a recent answer, or tried on a connection like theirs,
   * before all that wait. `busy`: every connection is, and no other may be opened.
   */
  async answers(withinMs: number): Promise<DatabaseAnswer> {
    if (performance.now() - this.#answeredAt < RECENT_ANSWER_MS) return 'yes';
    if (this.#openings.isAway && this.#openings.underWay === 0 && !this.#connections.mayOpen) return 'no';
    if (this.#connections.idle === 0 && this.#connections.all.length > 0 && !this.#connections.mayOpen)
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
      this.#seekAgain(this.#waitingFor(job));
    });
  }

  /** Refuses new work and closes each connection as soon as it is idle. */
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

  /** For one that had its turn: before all others, with the time that it has left. */
  #seekAgain(waiting: Waiting): void {
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

  /** Pipelined where it may not have a connection of its own. */
  #serveRead(waiting: Waiting): boolean {
    // Those that wait come first.
    if (this.#waiting.firstRead) return false;
    if (this.#readLimit.isOpen() && this.#serve(waiting)) return true;
    const connection =
      waiting.job && !this.#waiting.hasOthers
        ? shortestPipeline(this.#connections.all, waiting.job)
        : undefined;
    if (connection) waiting.grant(connection);
    return connection !== undefined;
  }

  /** True when it got a connection or will get the one that is being opened. */
  #serve(waiting: Waiting): boolean {
    const idle = this.#connections.takeIdle();
    if (idle) {
      waiting.grant(idle);
      return true;
    }
    if (!this.#connections.mayOpen) return false;
    const opened = waiting.job?.isRead === true ? this.#readLimit.opening() : undefined;
    this.#connections
      .open()
      .finally(opened)
      .then(
        (connection) => waiting.grant(connection),
        (error: unknown) => this.#notOpened(waiting, toError(error)),
      );
    return true;
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
      const ms = this.#answeredAt - startedAt;
      if (!(error instanceof Unreplayed)) job.latency.record(ms, isFirst);
      if (!job.isSettled) job.took(ms);
      if (ms >= this.#slowMs) this.#onSlow?.(job, ms, error, results);
      this.#onRan?.(job, startedAt - job.askedAt, ms, error, results);
    }
    const next =
      error === undefined || this.#closed ? 'answer' : nextAfter(attempt, error, this.failoverWaitMs);
    if (attempt.batch?.lostName === true) this.#leftServers.countLostName();
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

  /** It serves whoever is next. */
  #giveBack(connection: PooledConnection): void {
    const { wire } = connection;
    if (!wire.usable || !wire.idle || this.#closed || connection.isOver(performance.now())) {
      this.#connections.discard(connection);
      this.#refill();
      return;
    }
    if (connection.isCancelling) {
      connection.afterCancel(() => this.#giveBack(connection));
      return;
    }
    const next = this.#waiting.next(this.#readLimit.isOpen);
    if (!next) {
      this.#connections.rest(connection);
      return;
    }
    // An even share of the waiting reads, so that the other connections find work too.
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

  /** Once more, with a wait of its own for a connection. */
  #repeat(job: Job): void {
    if (!job.isWanted || job.isRunning) return;
    job.until = 0;
    this.#seekAgain(this.#waitingFor(job));
  }

  /** A write met a server that takes none. If that is a standby, the primary is somewhere else. */
  #askForPrimary({ job, connection }: Attempt, error: Error): void {
    this.#leftServers.ask(connection, (kind) => {
      this.release(connection);
      const now = performance.now();
      if (job.failingSince === 0) job.failingSince = now;
      const isInTime = now - job.failingSince < this.failoverWaitMs;
      if (!isInTime || kind === 'primary') this.#answer(job, error);
      else setTimeout(() => this.#repeat(job), Math.min(ASK_AGAIN_MS, this.failoverWaitMs));
    });
  }

  /** Checks the pipelines and the waiting reads as long as there are any. */
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

  /** Starts reads that waited for others, once those have been reading for long. */
  #admitReads(): void {
    while (this.#waiting.firstRead && this.#readLimit.isOpen()) {
      if (this.#connections.idle === 0 && !this.#connections.mayOpen) return;
      const next = this.#waiting.shiftRead();
      if (next) this.#serve(next);
    }
  }

  /** Reads behind a late statement are tried a second time, on the next free connection. The first answer counts. */
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

  /** A server that has lost a connection: nothing better is known about the idle ones to it. */
  #checkBusy(): void {
    this.#leftServers.leaveStandIns();
    for (const { target, isGone } of this.#deathWatch.check(this.#connections.all)) {
      if (isGone) this.#openings.suspect();
      this.#connections.discardIdle((idle) => idle.target === target);
    }
  }

  /** There may be room for more connections now. */
  #openMore(wasAway: boolean): void {
    if (wasAway) this.#waiting.resumed();
    setImmediate(() => {
      for (let missing = this.#waiting.length; missing > 0 && this.#connections.mayOpen; missing -= 1) {
        this.#refill();
      }
      this.#watchOpenings();
    });
  }

  /** An opening was refused: when the next may be tried, and who is told before, is another moment now. */
  #openLater(): void {
    this.#waiting.watchAgain();
    clearTimeout(this.#openingTimer);
    this.#openingTimer = undefined;
    this.#watchOpenings();
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
    if (this.#connections.all.length === 0) this.#waiting.refuseAll(() => refusal);
  }

  /** Opens a connection in place of a lost one, for the request that has waited longest. */
  #refill(): void {
    if (this.#closed || this.#waiting.length === 0 || !this.#connections.mayOpen) return;
    this.#connections.open().then(
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
