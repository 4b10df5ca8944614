// Which connection does what. A job gets an idle connection, a new one, or, when there is none for it and it is a
// read, a place in line behind quick reads on a connection that works already: the server goes from one to the next
// without waiting for us, and several leave in one write. Everything else waits for a connection of its own.
// The rules that keep a slow statement from holding up those behind it: docs/decisions/0035; how many read: 0036.
import { Problem } from '../../problem/problem.ts';
import { openWire, type ConnectionSettings } from '../connection.ts';
import { ConnectionLost, isDatabaseError } from '../pg-error.ts';
import { Attempt, givenUp, Job, Pace, type Cancellable, type JobOptions } from './job.ts';
import { PooledConnection } from './pooled-connection.ts';
import { WaitingList, type Waiting } from './wait-queue.ts';
import type { OnSettled } from '../wire/wire.ts';

export type ConnectionPoolOptions = ConnectionSettings & {
  /** Most connections open at once. */
  readonly max: number;
  /** Most connections that read at once, those left out that have done so for long. Without it, all. */
  readonly maxReading?: number | undefined;
  /** Connections kept open when idle. */
  readonly minIdle: number;
  readonly idleTimeoutMs: number;
  /** How long a request may wait for a free connection, in milliseconds. */
  readonly acquireTimeoutMs?: number | undefined;
  readonly onNotice?: ((message: string) => void) | undefined;
};

/** Batches under way on one connection. More of them hardly save anything. */
const LONGEST_LINE = 16;
/** The same for statements that take so long, in milliseconds, that the way to the server is nothing beside it. */
const LINE_OF_LONG_ONES = 3;
const LONG_FOR_A_LINE_MS = 2.5;
/** A read that takes longer may wait for something else than a processor: others are let in beside it. */
const LONG_READ_MS = 100;
const LOOK_EVERY_MS = 10;
const MOST_ATTEMPTS = 4;
/** How often the connections that work are looked after. */
const CLOCK_MS = 250;
/** How long after its deadline, or after the cancel, the server may take to say that a statement ended. */
const OVERDUE_MS = 3_000;
/** Looks in a row at which a connection that is overdue had received nothing more. */
const SILENT_LOOKS = 4;
/** An answer this young shows that the database answers. */
const FRESH_ANSWER_MS = 2_000;
/** With all connections at work, requests get no answer when none has come for so long. */
const NO_ANSWER_MS = 5_000;

const poolExhausted = (): Problem =>
  new Problem('pool_exhausted', 504, 'Timed out acquiring connection from connection pool.', {
    hint: 'All database connections were busy. Raise database.pool.max or look for slow statements.',
  });

export class ConnectionPool {
  readonly #options: ConnectionPoolOptions;
  readonly #maxReading: number;
  readonly #all: PooledConnection[] = [];
  readonly #idle: PooledConnection[] = [];
  readonly #waitingReads = new WaitingList();
  readonly #waitingOthers = new WaitingList();
  #opening = 0;
  #openingToRead = 0;
  #closed = false;
  readonly #reaper: NodeJS.Timeout;
  readonly #clock: NodeJS.Timeout;
  /** `performance.now()` when the server last ended a batch. */
  #answeredAt = Number.NEGATIVE_INFINITY;
  #waitingTimer: NodeJS.Timeout | undefined;
  #readTimer: NodeJS.Timeout | undefined;

  constructor(options: ConnectionPoolOptions) {
    this.#options = options;
    this.#maxReading = Math.min(options.maxReading ?? options.max, options.max);
    this.#reaper = setInterval(() => this.#reap(), Math.min(options.idleTimeoutMs, 30_000));
    this.#reaper.unref();
    this.#clock = setInterval(() => this.#lookAfterBusy(), CLOCK_MS);
    this.#clock.unref();
  }

  get size(): { open: number; idle: number; waiting: number } {
    return { open: this.#all.length, idle: this.#idle.length, waiting: this.#waiting };
  }

  /** Callbacks and no promise of its own: each turn of the microtask queue shows at this rate of requests. */
  run(options: JobOptions): void {
    const { cancellable, settle } = options;
    if (cancellable?.aborted) {
      settle(givenUp(cancellable), []);
      return;
    }
    this.#seek(this.#waitingFor(new Job(options)));
  }

  /** A connection for one caller alone, until `release`. */
  acquire(cancellable?: Cancellable): Promise<PooledConnection> {
    return new Promise((grant, refuse) => {
      if (cancellable?.aborted) {
        refuse(givenUp(cancellable));
        return;
      }
      const waiting: Waiting = {
        job: undefined,
        isGivenUp: false,
        until: this.#deadline(),
        grant: (connection) => (waiting.isGivenUp ? this.#giveBack(connection) : grant(connection)),
        refuse,
      };
      if (cancellable) {
        cancellable.cancel = () => {
          waiting.isGivenUp = true;
          refuse(givenUp(cancellable));
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
   * Whether requests get an answer from the database: seen by what they got of late, or tried on a connection as theirs.
   */
  async answers(withinMs: number): Promise<boolean> {
    const silentFor = performance.now() - this.#answeredAt;
    if (silentFor < FRESH_ANSWER_MS) return true;
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
        isShareable: false,
        isRepeatable: false,
        pace: new Pace(),
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

  /** Gives up waiting: running statements are cut off with their connections. */
  destroy(): void {
    this.#stop();
    while (this.#all[0]) this.#discard(this.#all[0]);
  }

  #stop(): void {
    this.#closed = true;
    clearInterval(this.#reaper);
    clearInterval(this.#clock);
    clearTimeout(this.#waitingTimer);
    clearTimeout(this.#readTimer);
    this.#waitingReads.refuseAll(poolClosed);
    this.#waitingOthers.refuseAll(poolClosed);
  }

  #deadline(): number {
    return performance.now() + (this.#options.acquireTimeoutMs ?? 10_000);
  }

  #waitingFor(job: Job): Waiting {
    return {
      job,
      until: this.#deadline(),
      grant: (connection) => this.#start(job, connection),
      refuse: (error) => {
        if (!job.isUnderWay) job.end(error, []);
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
    (isRead ? this.#waitingReads : this.#waitingOthers).push(waiting);
    this.#watchWaiting();
    if (isRead) this.#watchReads();
  }

  /** In line where it may not have a connection of its own. */
  #serveRead(waiting: Waiting): boolean {
    // Those who wait longer come first.
    if (this.#waitingReads.first) return false;
    if (this.#mayRead() && this.#serve(waiting)) return true;
    const line = waiting.job && !this.#waitingOthers.first ? this.#shortestLine(waiting.job) : undefined;
    if (line) waiting.grant(line);
    return line !== undefined;
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
      // Given up while the connection was being opened for it.
      if (connection.attempts.length === 0) this.#giveBack(connection);
      return;
    }
    const attempt = new Attempt(job, connection);
    job.started(attempt);
    connection.add(attempt);
    if (!attempt.isAlone) this.#watchReads();
    attempt.batch = connection.wire.send(
      job.statements,
      (error, results) => this.#ended(attempt, error, results),
      job.isNameless,
    );
  }

  #ended(attempt: Attempt, error: Error | undefined, results: Parameters<OnSettled>[1]): void {
    const { job, connection, startedAt, isAlone } = attempt;
    connection.remove(attempt);
    job.ended(attempt);
    if (startedAt > 0 && connection.wire.usable) {
      this.#answeredAt = performance.now();
      job.pace.note(this.#answeredAt - startedAt, isAlone);
    }
    const again = error !== undefined && this.#deservesAnother(attempt, error);
    // The next statement is on its way before the results of this one are looked at.
    if (connection.attempts.length === 0) this.release(connection);
    if (again) this.#seek(this.#waitingFor(job));
    else job.end(error, results);
  }

  /** A read that failed for a reason that was not its own, or anything that did not begin for want of a name. */
  #deservesAnother({ job, connection, startedAt, isCancelled, batch }: Attempt, error: Error): boolean {
    if (!job.isWanted || isCancelled || this.#closed) return false;
    if (job.attempts >= MOST_ATTEMPTS) return false;
    if (batch?.lostName === true && !job.isNameless) {
      job.isNameless = true;
      return true;
    }
    if (!job.isShareable) return false;
    const neverStarted = startedAt === 0 && !connection.wire.usable;
    const wrongCancel = isDatabaseError(error, 'query_canceled') && connection.wasCancelled;
    return neverStarted || wrongCancel;
  }

  /** The busy connection with the fewest batches that this job may stand behind. */
  #shortestLine(job: Job): PooledConnection | undefined {
    if (!job.isShareable) return undefined;
    const now = performance.now();
    let shortest: PooledConnection | undefined;
    let length = longestLine(job);
    for (const connection of this.#all) {
      if (connection.attempts.length >= length || !connection.admits(job, now)) continue;
      shortest = connection;
      ({ length } = connection.attempts);
    }
    return shortest;
  }

  /** Looks at the lines, and at the reads that wait, as long as there are any. */
  #watchReads(): void {
    this.#readTimer ??= setTimeout(() => {
      this.#readTimer = undefined;
      this.#helpHeldUp();
      this.#letReadsIn();
      const isNeeded = this.#waitingReads.length > 0 || this.#all.some(({ attempts }) => attempts.length > 1);
      if (isNeeded) this.#watchReads();
    }, LOOK_EVERY_MS);
  }

  /** Reads that wait because others were reading, once those have done so for long. */
  #letReadsIn(): void {
    while (this.#waitingReads.first && this.#mayRead()) {
      if (this.#idle.length === 0 && !this.#mayOpen) return;
      const next = this.#waitingReads.shift();
      if (next) this.#serve(next);
    }
  }

  /** What stands behind a statement that takes long is tried a second time, on the next connection that is free. */
  #helpHeldUp(): void {
    const now = performance.now();
    for (const connection of this.#all) {
      const [first, ...others] = connection.attempts;
      if (!first || others.length === 0 || !first.isLate(now)) continue;
      if (first.isCancelled && !connection.isCancelling) connection.cancel();
      for (const attempt of others) {
        if (attempt.isHeldUp || attempt.isCancelled || attempt.job.attempts >= MOST_ATTEMPTS) continue;
        attempt.isHeldUp = true;
        this.#seek(this.#waitingFor(attempt.job));
      }
    }
  }

  /**
   * A cancel may come before the statement it is meant for, so it is repeated. And a server that vanished without a
   * word never ends what it was given: neither the deadline of the statement nor a cancel reaches it. Its connection
   * is given up, and with it those that are idle, of which nobody knows any better.
   */
  #lookAfterBusy(): void {
    const now = performance.now();
    for (const connection of this.#all.slice()) {
      if (!connection.isOverdue(now, this.#options.statementTimeoutMs ?? 0, OVERDUE_MS)) continue;
      if (connection.silentLooks < SILENT_LOOKS) continue;
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
    // An even share of the reads that wait, so that the other connections find work too.
    const readers = Math.min(this.#maxReading, this.#all.length);
    const even = Math.ceil(this.#waitingReads.length / readers);
    const share = next.job ? Math.min(longestLine(next.job), even) : even;
    next.grant(connection);
    while (connection.attempts.length > 0 && connection.attempts.length < share) {
      const { first } = this.#waitingReads;
      if (!first?.job || isBefore(this.#waitingOthers.first, first)) return;
      if (!first.job.isShareable || !connection.admits(first.job, performance.now())) return;
      this.#waitingReads.shift()?.grant(connection);
    }
  }

  /** Whoever waits longest among those that may run now. */
  #nextWaiting(): Waiting | undefined {
    const other = this.#waitingOthers.first;
    const read = this.#waitingReads.first;
    if (read && !isBefore(other, read) && this.#mayRead()) return this.#waitingReads.shift();
    return this.#waitingOthers.shift();
  }

  /** One timer for all that wait: hardly any ever gets there. */
  #watchWaiting(): void {
    if (this.#waitingTimer) return;
    const ends = [this.#waitingReads.first, this.#waitingOthers.first].flatMap((one) => one?.until ?? []);
    if (ends.length === 0) return;
    this.#waitingTimer = setTimeout(
      () => {
        this.#waitingTimer = undefined;
        const now = performance.now();
        this.#waitingReads.refuseUntil(now, poolExhausted);
        this.#waitingOthers.refuseUntil(now, poolExhausted);
        this.#watchWaiting();
      },
      Math.max(1, Math.min(...ends) - performance.now()),
    );
  }

  async #open(): Promise<PooledConnection> {
    this.#opening += 1;
    try {
      const connection = new PooledConnection(await openWire(this.#options, this.#options.onNotice));
      this.#all.push(connection);
      return connection;
    } catch (error) {
      // Whoever waits for a slot would wait for nothing if nobody tried again.
      this.#nextWaiting()?.refuse(toError(error));
      throw error;
    } finally {
      this.#opening -= 1;
    }
  }

  /** A lost connection frees a slot: open a new one for the request that waits longest. */
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

/** What is not sent may still go elsewhere, and others may join it. */
function longestLine({ pace }: Job): number {
  return pace.longMean > LONG_FOR_A_LINE_MS ? LINE_OF_LONG_ONES : LONGEST_LINE;
}

/** All wait for the same time, so whoever came first ends first. */
function isBefore(one: Waiting | undefined, other: Waiting): boolean {
  return one !== undefined && one.until < other.until;
}

/** The server did not say how its work ended: whether a write was done is not known. */
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
