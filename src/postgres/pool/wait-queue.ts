// Those who wait for a connection, in order of arrival. Identical reads wait as one (single-flight).
import type { Job } from './job.ts';
import type { PooledConnection } from './pooled-connection.ts';
import { SingleFlight } from './single-flight.ts';

export type Waiting = {
  /** Absent for a connection that one caller wants for itself. */
  readonly job: Job | undefined;
  /** The caller that wanted a connection for itself has left. */
  isAbandoned?: boolean;
  /** `performance.now()` at which the wait times out. */
  readonly until: number;
  /** Starts what waited, in the same turn in which the connection became free. */
  grant(connection: PooledConnection): void;
  refuse(error: Error): void;
};

export class WaitQueue {
  readonly #queue: Waiting[] = [];
  readonly #singleFlight = new SingleFlight();

  get length(): number {
    return this.#queue.length;
  }

  /** The longest waiting that is still wanted. */
  get first(): Waiting | undefined {
    for (;;) {
      const [first] = this.#queue;
      if (first === undefined || isWanted(first)) return first;
      this.#remove();
    }
  }

  push(waiting: Waiting): void {
    if (waiting.job && this.#singleFlight.share(waiting.job, waiting.until)) return;
    this.#queue.push(waiting);
  }

  /** For one that had its turn and got no connection: before all others, with the time that it has left. */
  pushFront(waiting: Waiting): void {
    this.#queue.unshift(waiting);
  }

  shift(): Waiting | undefined {
    return this.first && this.#remove();
  }

  /** Refuses all whose wait has timed out; the queue is in the order of these times. */
  refuseUntil(now: number, refusal: () => Error): void {
    while (this.#queue[0] && this.#queue[0].until <= now) this.#remove()?.refuse(refusal());
  }

  refuseAll(refusal: () => Error): void {
    this.refuseUntil(Number.POSITIVE_INFINITY, refusal);
  }

  #remove(): Waiting | undefined {
    const waiting = this.#queue.shift();
    if (waiting?.job) this.#singleFlight.remove(waiting.job);
    return waiting;
  }
}

function isWanted({ job, isAbandoned }: Waiting): boolean {
  return job === undefined ? isAbandoned !== true : job.isWanted;
}
