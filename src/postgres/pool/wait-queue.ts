// Those who wait for a connection, in order of arrival. Who asks what somebody on the list asks already, word for
// word, waits with them and shares the answer: docs/decisions/0037.
import type { Job } from './job.ts';
import type { PooledConnection } from './pooled-connection.ts';

export type Waiting = {
  /** Absent for a connection that is wanted for one caller alone. */
  readonly job: Job | undefined;
  /** Whoever waited for a connection alone does not want it any more. */
  isGivenUp?: boolean;
  /** `performance.now()` at which it is given up. */
  readonly until: number;
  /** Called from inside the pool: starts what waited, in the same turn in which the connection came free. */
  grant(connection: PooledConnection): void;
  refuse(error: Error): void;
};

/** A power of two. Of two different questions in one place the later one can be joined. */
const PLACES = 512;
/** Who came so much earlier is given up so much earlier, and with them who joined. */
const JOINED_WITHIN_MS = 1_000;

export class WaitingList {
  readonly #list: Waiting[] = [];
  /**
   * What may be joined, by the hash of its question. No Map: at this rate of adding and deleting one keeps what was
   * deleted alive (0034).
   */
  readonly #places: Array<Waiting | undefined> = Array.from({ length: PLACES });

  get length(): number {
    return this.#list.length;
  }

  /** Whoever waits longest and still needs to. */
  get first(): Waiting | undefined {
    for (;;) {
      const [first] = this.#list;
      if (first === undefined || isWanted(first)) return first;
      this.#remove();
    }
  }

  push(waiting: Waiting): void {
    const { job, until } = waiting;
    if (job?.mayBeJoined) {
      const place = placeOf(job);
      const other = this.#places[place];
      if (
        other?.job?.isWanted === true &&
        other.job.asksTheSameAs(job) &&
        until - other.until <= JOINED_WITHIN_MS
      ) {
        other.job.join(job);
        return;
      }
      this.#places[place] = waiting;
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
    if (waiting?.job?.mayBeJoined) {
      const place = placeOf(waiting.job);
      if (this.#places[place] === waiting) this.#places[place] = undefined;
    }
    return waiting;
  }
}

function isWanted({ job, isGivenUp }: Waiting): boolean {
  return job === undefined ? isGivenUp !== true : job.isWanted;
}

function placeOf({ hash }: Job): number {
  return hash & (PLACES - 1);
}
