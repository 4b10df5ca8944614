// A queue of batches that wait for a connection. Callers take turns of one batch each, and the order within a caller
// is that of arrival. A caller with hundreds of requests therefore delays another by only one batch
// (docs/decisions/0090). Identical reads wait as one batch (single-flight), at the turn of the first caller.
import type { CallerIdentity } from '../../lib/limits/caller-key.ts';
import { holderKey, type Admits } from './connection-share.ts';
import type { Cancellable, Job } from './job.ts';
import type { PooledConnection } from './pooled-connection.ts';
import { SingleFlight } from './single-flight.ts';

export type Waiting = {
  /** Absent for a request for an exclusive connection. */
  readonly job: Job | undefined;
  readonly sharer: CallerIdentity | undefined;
  readonly cancellable: Cancellable | undefined;
  /** Set by `holderKey`. */
  key?: string;
  /** The caller that wanted a connection for itself has left. */
  isAbandoned?: boolean;
  /** `performance.now()` at which the wait times out. */
  readonly until: number;
  /** The caller's line; set by the queue. */
  line?: Line | undefined;
  /** Starts the batch in the same turn of the event loop in which the connection became free. */
  grant(connection: PooledConnection): void;
  refuse(error: Error): void;
};

/** Waiting entries of one caller. */
type Line = {
  readonly key: string;
  readonly waiting: Waiting[];
  /** Order among the callers of several queues: the end of the last turn, or the arrival. */
  turn: number;
};

/** Given to lines in order, over all queues. */
let turns = 0;

export class WaitQueue {
  /** The caller whose turn is next comes first. An empty line is skipped, or reused when its caller returns. */
  readonly #ring: Line[] = [];
  readonly #lines = new Map<string, Line>();
  readonly #singleFlight = new SingleFlight();
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Returns the first batch of the caller whose turn it is, among the callers that `admits` allows. */
  first(admits?: Admits): Waiting | undefined {
    if (this.#length === 0) return undefined;
    for (let at = 0; ;) {
      const line = this.#ring[at];
      if (line === undefined) return undefined;
      const [first] = line.waiting;
      if (first === undefined) this.#passOver(at);
      else if (!isWanted(first)) this.remove(first);
      else if (admits?.(line.key) === false) at += 1;
      else return first;
    }
  }

  push(waiting: Waiting): void {
    if (waiting.job && this.#singleFlight.share(waiting.job, waiting.until)) return;
    this.#enter(waiting).push(waiting);
  }

  /** Queues a batch that has had its turn before all others. */
  pushFront(waiting: Waiting): void {
    this.#enter(waiting).unshift(waiting);
    const { line } = waiting;
    if (!line || this.#ring[0] === line) return;
    this.#ring.splice(this.#ring.indexOf(line), 1);
    line.turn = (this.#ring[0]?.turn ?? line.turn) - 1;
    this.#ring.unshift(line);
  }

  /** Removes the first batch. The turn of its caller is over; callers that wait for their share keep theirs. */
  shift(admits?: Admits): Waiting | undefined {
    const first = this.first(admits);
    const line = first?.line;
    if (!first || !line) return undefined;
    this.remove(first);
    if (this.#ring.length > 1) {
      this.#ring.splice(this.#ring.indexOf(line), 1);
      if (line.waiting.length > 0) this.#ring.push(line);
      else this.#lines.delete(line.key);
    }
    line.turn = turns++;
    return first;
  }

  /** Removes a batch whose caller has left, or that is served. */
  remove(waiting: Waiting): void {
    const { line, job } = waiting;
    const at = line?.waiting.indexOf(waiting) ?? -1;
    if (at < 0) return;
    line?.waiting.splice(at, 1);
    waiting.line = undefined;
    this.#length -= 1;
    if (job) this.#singleFlight.remove(job);
  }

  /** Returns the number of waiting batches of the caller. */
  heldBy(key: string): number {
    return this.#lines.get(key)?.waiting.length ?? 0;
  }

  /** Returns the number of batches that start before the next one of this caller, with one per caller and turn. */
  before(key: string): number {
    const own = this.heldBy(key);
    return this.#ring.reduce((sum, { waiting }) => sum + Math.min(waiting.length, own + 1), 0);
  }

  /** The earliest time at which a wait times out. */
  get timesOutAt(): number {
    // Within a caller, the first batch times out first.
    return this.#ring.reduce(
      (soonest, { waiting }) => Math.min(soonest, waiting[0]?.until ?? Number.POSITIVE_INFINITY),
      Number.POSITIVE_INFINITY,
    );
  }

  /** Rejects all batches whose wait has timed out. */
  refuseUntil(now: number, refusal: () => Error): void {
    for (const { waiting } of this.#ring.slice()) {
      while (waiting[0] && waiting[0].until <= now) {
        const [late] = waiting;
        this.remove(late);
        late.refuse(refusal());
      }
    }
  }

  refuseAll(refusal: () => Error): void {
    this.refuseUntil(Number.POSITIVE_INFINITY, refusal);
  }

  #enter(waiting: Waiting): Waiting[] {
    const key = holderKey(waiting);
    let line = this.#lines.get(key);
    if (!line) {
      line = { key, waiting: [], turn: turns++ };
      this.#lines.set(key, line);
      this.#ring.push(line);
    }
    waiting.line = line;
    this.#length += 1;
    return line.waiting;
  }

  #passOver(at: number): void {
    for (const { key } of this.#ring.splice(at, 1)) this.#lines.delete(key);
  }
}

/** Compares turns. Entries of one caller keep their order. */
export function isBefore(left: Waiting | undefined, right: Waiting): boolean {
  if (!left?.line || !right.line) return left !== undefined;
  if (left.line.key === right.line.key) return left.until < right.until;
  return left.line.turn < right.line.turn;
}

function isWanted({ job, isAbandoned }: Waiting): boolean {
  return job === undefined ? isAbandoned !== true : job.isWanted;
}
