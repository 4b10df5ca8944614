// Whether there is any sense in waiting for a connection: a request that would time out in the queue is told so when it
// comes, before anything is done for it (docs/decisions/0090).
import { overloaded } from '../../problem/overloaded.ts';
import type { Problem } from '../../problem/problem.ts';

/** Until all connections have been busy for this long, nothing is predicted. */
const LEAST_MS = 1_000;
/** How far back the prediction looks; once as long again counts half of the time. */
const WINDOW_MS = 5_000;

export type Places = {
  /** Who waits, over all queues. */
  readonly waiting: number;
  /** Of them, batches of the same caller. */
  readonly own: number;
  /** Batches that start before this one would. */
  readonly before: () => number;
  /** Batches that run now. */
  readonly running: number;
  /** How long this one may wait. */
  readonly patienceMs: number;
};

export class Admission {
  /** Places in the queue. */
  readonly #places: number;
  #since = 0;
  #ended = 0;
  #former = { ms: 0, ended: 0 };

  constructor(places: number) {
    this.#places = places;
  }

  /** Somebody begins to wait, where nobody did. */
  queued(now: number): void {
    this.#since = now;
    this.#ended = 0;
    this.#former = { ms: 0, ended: 0 };
  }

  /** A batch has ended. */
  ended(): void {
    this.#ended += 1;
  }

  /** Undefined when it may wait. */
  refusal({ waiting, own, before, running, patienceMs }: Places, now: number): Problem | undefined {
    if (waiting === 0) return undefined;
    const perSecond = this.#perSecond(running, now);
    const isFull = waiting >= this.#places || own >= this.#places / 2;
    if (!isFull && (perSecond === undefined || (waiting / perSecond) * 1_000 <= patienceMs)) return undefined;
    const seconds = perSecond === undefined ? 1 : before() / perSecond;
    return isFull || seconds * 1_000 > patienceMs ? overloaded(seconds) : undefined;
  }

  /**
   * What runs counts as about to end: batches that began together end together, and until then nothing would seem to
   * move.
   */
  #perSecond(running: number, now: number): number | undefined {
    const ms = now - this.#since;
    const former = this.#former;
    if (former.ms + ms < LEAST_MS) return undefined;
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
