// Those who wait for a connection: reads and others in a queue each, who is next, who has no place, and who has waited
// for too long.
import { DatabaseUnavailable } from '../pg-error.ts';
import { Problem } from '../../problem/problem.ts';
import { Admission } from './admission.ts';
import type { Cancellable } from './job.ts';
import type { Openings } from './failure/openings.ts';
import { turnKey, type Sharer } from './sharer.ts';
import { isBefore, WaitQueue, type Waiting } from './wait-queue.ts';

export type WaitingRoomOptions = {
  /** How long each may wait. */
  readonly patienceMs: number;
  /** How long while the database cannot be reached. */
  readonly failoverWaitMs: number;
  readonly places: number;
  readonly openings: Openings;
};

/** Refusals for lack of time come at most this late. */
const LEAST_WATCH_MS = 10;

const poolExhausted = (): Problem =>
  new Problem('pool_exhausted', 504, 'Timed out acquiring connection from connection pool.', {
    hint: 'All database connections were busy. Raise database.pool.max or look for slow statements.',
  });

export class WaitingRoom {
  readonly #options: WaitingRoomOptions;
  readonly #admission: Admission;
  readonly #reads = new WaitQueue();
  readonly #others = new WaitQueue();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: WaitingRoomOptions) {
    this.#options = options;
    this.#admission = new Admission(options.places);
  }

  get length(): number {
    return this.#reads.length + this.#others.length;
  }

  get reads(): number {
    return this.#reads.length;
  }

  get firstRead(): Waiting | undefined {
    return this.#reads.first;
  }

  /** The first read, unless it is somebody else's turn. */
  get nextRead(): Waiting | undefined {
    const read = this.#reads.first;
    return read && isBefore(this.#others.first, read) ? undefined : read;
  }

  get hasOthers(): boolean {
    return this.#others.first !== undefined;
  }

  /** The refusal of a request that would have to wait and has no place, or would time out there. */
  refusal(running: number, sharer?: Sharer, cancellable?: Cancellable): Problem | undefined {
    const waiting = this.length;
    if (waiting === 0) return undefined;
    const now = performance.now();
    const key = turnKey(sharer, cancellable);
    // While the database is away nothing ends, which says nothing about later.
    const patienceMs = this.#options.openings.isAway
      ? Number.POSITIVE_INFINITY
      : Math.min(this.#options.patienceMs, (cancellable?.endsAt ?? Number.POSITIVE_INFINITY) - now);
    const own = this.#reads.heldBy(key) + this.#others.heldBy(key);
    const before = (): number => this.#reads.before(key) + this.#others.before(key);
    return this.#admission.refusal({ waiting, own, before, running, patienceMs }, now);
  }

  /** A batch has ended. */
  ended(): void {
    this.#admission.ended();
  }

  /** What is counted begins anew: after a pause in which nothing could end. */
  resumed(): void {
    this.#admission.queued(performance.now());
  }

  /** Takes it in or refuses it. */
  add(waiting: Waiting, running: number): void {
    const { job } = waiting;
    // What was begun once, and what is tried a second time, has been admitted.
    const refusal =
      job && job.attempts > 0 ? undefined : this.refusal(running, waiting.sharer, waiting.cancellable);
    if (refusal) {
      waiting.refuse(refusal);
      return;
    }
    this.#beginCount();
    const queue = this.#queueOf(waiting);
    queue.push(waiting);
    if (job) job.leaveQueue = () => queue.remove(waiting);
    this.#watch();
  }

  /** For one that had its turn: before all others, with the time that it has left. */
  addFront(waiting: Waiting): void {
    this.#beginCount();
    const queue = this.#queueOf(waiting);
    queue.pushFront(waiting);
    if (waiting.job) waiting.job.leaveQueue = () => queue.remove(waiting);
    this.#watch();
  }

  /** What ends is counted while somebody waits. */
  #beginCount(): void {
    if (this.length === 0) this.#admission.queued(performance.now());
  }

  remove(waiting: Waiting): void {
    this.#queueOf(waiting).remove(waiting);
  }

  /** Whose turn it is among those that may run now. */
  next(mayRead: () => boolean): Waiting | undefined {
    return this.nextRead && mayRead() ? this.#reads.shift() : this.#others.shift();
  }

  shiftRead(): Waiting | undefined {
    return this.#reads.shift();
  }

  refuseAll(refusal: () => Error): void {
    this.#reads.refuseAll(refusal);
    this.#others.refuseAll(refusal);
  }

  /** The database has turned out to be away: whoever waits is refused at another time now. */
  watchAgain(): void {
    this.stop();
    this.#watch();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #queueOf({ job }: Waiting): WaitQueue {
    return job?.isRead === true ? this.#reads : this.#others;
  }

  /** One timer for all that wait: hardly any of them times out. */
  #watch(): void {
    if (this.#timer) return;
    const soonest = Math.min(this.#reads.timesOutAt, this.#others.timesOutAt);
    if (soonest === Number.POSITIVE_INFINITY) return;
    const { openings, patienceMs, failoverWaitMs } = this.#options;
    const { awaySince } = openings;
    // Held since they came, but not for what was before the database was found away.
    const heldUntil =
      awaySince === undefined ? soonest : Math.max(soonest - patienceMs, awaySince) + failoverWaitMs;
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        this.#refuseLate();
        this.#watch();
      },
      Math.max(LEAST_WATCH_MS, Math.min(soonest, heldUntil) - performance.now()),
    );
  }

  #refuseLate(): void {
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
