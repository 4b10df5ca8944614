// Those who wait for a connection, in order of arrival.
import type { Job } from './job.ts';
import type { PooledConnection } from './pooled-connection.ts';

export type Waiting = {
  /** Absent for a connection that is wanted for one caller alone. */
  readonly job: Job | undefined;
  /** `performance.now()` at which it is given up. */
  readonly until: number;
  /** Called from inside the pool: starts what waited, in the same turn in which the connection came free. */
  grant(connection: PooledConnection): void;
  refuse(error: Error): void;
};

export class WaitingList {
  readonly #list: Waiting[] = [];

  get length(): number {
    return this.#list.length;
  }

  /** Whoever waits longest and still needs to. */
  get first(): Waiting | undefined {
    while (this.#list[0]?.job?.isSettled === true) this.#list.shift();
    return this.#list[0];
  }

  push(waiting: Waiting): void {
    this.#list.push(waiting);
  }

  shift(): Waiting | undefined {
    const { first } = this;
    if (first) this.#list.shift();
    return first;
  }

  /** Refuses all that have waited too long: they are in order of their ends. */
  refuseUntil(now: number, refusal: () => Error): void {
    while (this.#list[0] && this.#list[0].until <= now) this.#list.shift()?.refuse(refusal());
  }

  refuseAll(refusal: () => Error): void {
    this.refuseUntil(Number.POSITIVE_INFINITY, refusal);
  }
}
