// Estimates the wait for a connection. A request that would time out in the queue is rejected on arrival, before any
// work is done for it (docs/decisions/0090).
import { defaultReserve } from '../../lib/limits/fair-share.ts';
import { overloaded } from '../../problem/overloaded.ts';
import type { Problem } from '../../problem/problem.ts';

/** Until all connections have been busy for this long, nothing is predicted. */
const MIN_BUSY_MS = 1_000;
/** Time window of the estimate. An additional previous window of this length counts too. */
const WINDOW_MS = 5_000;

export type QueueState = {
  /** Number of waiting batches in all queues. */
  readonly waiting: number;
  /** Number of waiting batches of the same caller. */
  readonly own: number;
  /** Returns the number of batches that start before this one. */
  readonly before: () => number;
  /** Batches that run now. */
  readonly running: number;
  /** Maximum wait of this batch, in milliseconds. */
  readonly patienceMs: number;
};

export class WaitEstimate {
  /** Places in the queue. */
  readonly #places: number;
  #since = 0;
  #ended = 0;
  #former = { ms: 0, ended: 0 };

  constructor(places: number) {
    this.#places = places;
  }

  /** Called when the first batch starts to wait. */
  queued(now: number): void {
    this.#since = now;
    this.#ended = 0;
    this.#former = { ms: 0, ended: 0 };
  }

  /** A batch has ended. */
  ended(): void {
    this.#ended += 1;
  }

  /** Returns the rejection, or undefined if the batch can wait. */
  refusal({ waiting, own, before, running, patienceMs }: QueueState, now: number): Problem | undefined {
    if (waiting === 0) return undefined;
    const perSecond = this.#perSecond(running, now);
    const isShort = waiting >= this.#places - (own === 0 ? 0 : defaultReserve(this.#places));
    const isFull = isShort || own >= this.#places / 2;
    if (!isFull && (perSecond === undefined || (waiting / perSecond) * 1_000 <= patienceMs)) return undefined;
    const seconds = perSecond === undefined ? 1 : before() / perSecond;
    return isFull || seconds * 1_000 > patienceMs ? overloaded(seconds) : undefined;
  }

  /**
   * Counts running batches as about to end. Batches that began together end together, and the rate would be zero
   * until then.
   */
  #perSecond(running: number, now: number): number | undefined {
    const ms = now - this.#since;
    const former = this.#former;
    if (former.ms + ms < MIN_BUSY_MS) return undefined;
    const perSecond = ((former.ended + this.#ended + running) * 1_000) / (former.ms + ms);
    if (ms > WINDOW_MS) this.#restart(ms, now);
    return perSecond;
  }

  #restart(ms: number, now: number): void {
    this.#former = { ms, ended: this.#ended };
    this.#since = now;
    this.#ended = 0;
  }
}
