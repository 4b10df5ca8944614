// Those who wait for a connection, in order of arrival. Who asks what somebody on the list asks already, word for
// word, waits with them and shares the answer: docs/decisions/0037.
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

/** Who came so much earlier is given up so much earlier, and with them who joined. */
const JOINED_WITHIN_MS = 1_000;

export class WaitingList {
  readonly #list: Waiting[] = [];
  /** What may be joined, by its question. */
  readonly #byQuestion = new Map<string, Waiting>();

  get length(): number {
    return this.#list.length;
  }

  /** Whoever waits longest and still needs to. */
  get first(): Waiting | undefined {
    while (this.#list[0]?.job?.isSettled === true) this.#remove();
    return this.#list[0];
  }

  push(waiting: Waiting): void {
    const { job } = waiting;
    const question = job?.question;
    if (job && question !== undefined) {
      const same = this.#byQuestion.get(question);
      if (same?.job && waiting.until - same.until <= JOINED_WITHIN_MS) {
        same.job.join(job);
        return;
      }
      this.#byQuestion.set(question, waiting);
    }
    this.#list.push(waiting);
  }

  shift(): Waiting | undefined {
    return this.first && this.#remove();
  }

  /** Refuses all that have waited too long: they are in order of their ends. */
  refuseUntil(now: number, refusal: () => Error): void {
    while (this.#list[0] && this.#list[0].until <= now) this.#remove()?.refuse(refusal());
  }

  refuseAll(refusal: () => Error): void {
    this.refuseUntil(Number.POSITIVE_INFINITY, refusal);
  }

  #remove(): Waiting | undefined {
    const waiting = this.#list.shift();
    const question = waiting?.job?.question;
    // A later one may have taken its place as the one to join.
    if (question !== undefined && this.#byQuestion.get(question) === waiting)
      this.#byQuestion.delete(question);
    return waiting;
  }
}
