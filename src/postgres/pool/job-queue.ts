// Queues batches that wait for a connection: one queue for reads and one for others. It decides which batch is next,
// rejects batches beyond its limit, and times out the late ones.
import { DatabaseUnavailable } from '../pg-error.ts';
import { Problem } from '../../problem/problem.ts';
import { WaitEstimate } from './admission.ts';
import { holderKey, type Admits } from './connection-share.ts';
import type { Holder } from './job.ts';
import type { Openings } from './failure/openings.ts';
import { isBefore, WaitQueue, type Waiting } from './wait-queue.ts';

export type JobQueueOptions = {
  /** How long each may wait. */
  readonly patienceMs: number;
  /** How long while the database cannot be reached. */
  readonly failoverWaitMs: number;
  readonly places: number;
  readonly openings: Openings;
};

/** Minimum delay of the timeout check. */
const MIN_TIMER_MS = 10;

const poolExhausted = (): Problem =>
  new Problem('pool_exhausted', 504, 'Timed out acquiring connection from connection pool.', {
    hint: 'All database connections were busy. Raise database.pool.max or look for slow statements.',
  });

export class JobQueue {
  readonly #options: JobQueueOptions;
  readonly #admission: WaitEstimate;
  readonly #reads = new WaitQueue();
  readonly #others = new WaitQueue();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: JobQueueOptions) {
    this.#options = options;
    this.#admission = new WaitEstimate(options.places);
  }

  get length(): number {
    return this.#reads.length + this.#others.length;
  }

  get reads(): number {
    return this.#reads.length;
  }

  /** Returns the first read among the callers that `admits` allows. */
  firstRead(admits?: Admits): Waiting | undefined {
    return this.#reads.first(admits);
  }

  /** Returns the first read, unless another batch comes before it. */
  get nextRead(): Waiting | undefined {
    const read = this.#reads.first();
    return read && isBefore(this.#others.first(), read) ? undefined : read;
  }

  hasOthers(admits?: Admits): boolean {
    return this.#others.first(admits) !== undefined;
  }

  /**
   * Returns the rejection of a request that would have to wait although the queue is full, or would time out there.
   */
  refusal(running: number, holder: Holder): Problem | undefined {
    const waiting = this.length;
    if (waiting === 0) return undefined;
    const now = performance.now();
    const key = holderKey(holder);
    // While the database is away no batch ends, so the rate predicts nothing.
    const patienceMs = this.#options.openings.isAway
      ? Number.POSITIVE_INFINITY
      : Math.min(this.#options.patienceMs, (holder.cancellable?.endsAt ?? Number.POSITIVE_INFINITY) - now);
    const own = this.#reads.heldBy(key) + this.#others.heldBy(key);
    const before = (): number => this.#reads.before(key) + this.#others.before(key);
    return this.#admission.refusal({ waiting, own, before, running, patienceMs }, now);
  }

  /** A batch has ended. */
  ended(): void {
    this.#admission.ended();
  }

  /** Restarts the count after a pause in which no batch could end. */
  resumed(): void {
    this.#admission.queued(performance.now());
  }

  /** Queues or rejects the batch. */
  add(waiting: Waiting, running: number): void {
    const { job } = waiting;
    // A repeated job has been admitted before.
    const refusal = job && job.attempts > 0 ? undefined : this.refusal(running, waiting);
    if (refusal) {
      waiting.refuse(refusal);
      return;
    }
    this.#beginCount();
    const queue = this.#selectQueue(waiting);
    queue.push(waiting);
    if (job) job.leaveQueue = () => queue.remove(waiting);
    this.#watch();
  }

  /** Queues a batch that had its turn before all others, with its remaining time. */
  addFront(waiting: Waiting): void {
    this.#beginCount();
    const queue = this.#selectQueue(waiting);
    queue.pushFront(waiting);
    if (waiting.job) waiting.job.leaveQueue = () => queue.remove(waiting);
    this.#watch();
  }

  /** Counts ended batches only while others wait. */
  #beginCount(): void {
    if (this.length === 0) this.#admission.queued(performance.now());
  }

  remove(waiting: Waiting): void {
    this.#selectQueue(waiting).remove(waiting);
  }

  /** Returns the next batch that can run now. */
  next(mayRead: () => boolean, admits?: Admits): Waiting | undefined {
    const read = this.#reads.first(admits);
    const isTurnOfRead = read !== undefined && !isBefore(this.#others.first(admits), read);
    return isTurnOfRead && mayRead() ? this.#reads.shift(admits) : this.#others.shift(admits);
  }

  shiftRead(admits?: Admits): Waiting | undefined {
    return this.#reads.shift(admits);
  }

  refuseAll(refusal: () => Error): void {
    this.#reads.refuseAll(refusal);
    this.#others.refuseAll(refusal);
  }

  /** The database is away, so waiting batches time out at other times. */
  watchAgain(): void {
    this.stop();
    this.#watch();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #selectQueue({ job }: Waiting): WaitQueue {
    return job?.isRead === true ? this.#reads : this.#others;
  }

  /** A single timer for all waiting batches, because few of them time out. */
  #watch(): void {
    if (this.#timer) return;
    const soonest = Math.min(this.#reads.timesOutAt, this.#others.timesOutAt);
    if (soonest === Number.POSITIVE_INFINITY) return;
    const { openings, patienceMs, failoverWaitMs } = this.#options;
    const { awaySince } = openings;
    // The waiting time while the database is away counts from the arrival, or from the start of the outage.
    const heldUntil =
      awaySince === undefined ? soonest : Math.max(soonest - patienceMs, awaySince) + failoverWaitMs;
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        this.#rejectExpired();
        this.#watch();
      },
      Math.max(MIN_TIMER_MS, Math.min(soonest, heldUntil) - performance.now()),
    );
  }

  #rejectExpired(): void {
    const now = performance.now();
    const { openings, patienceMs, failoverWaitMs } = this.#options;
    const { awaySince, lastError } = openings;
    const refusal = awaySince === undefined ? poolExhausted : (): Error => new DatabaseUnavailable(lastError);
    const isHeldOut = awaySince !== undefined && now - awaySince >= failoverWaitMs;
    const until = isHeldOut ? Math.max(now, now + patienceMs - failoverWaitMs) : now;
    this.#reads.refuseUntil(until, refusal);
    this.#others.refuseUntil(until, refusal);
  }
}
