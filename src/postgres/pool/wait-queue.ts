// Those who wait for a connection. Callers take turns: each turn is one batch, and within a caller the order is that of
// arrival, so that one caller with hundreds of requests holds another up by one batch (docs/decisions/0090). Identical
// reads wait as one (single-flight), at the turn of the one who came first.
import { turnKey, type Sharer } from './sharer.ts';
import type { Cancellable, Job } from './job.ts';
import type { PooledConnection } from './pooled-connection.ts';
import { SingleFlight } from './single-flight.ts';

export type Waiting = {
  /** Absent for a connection that one caller wants for itself. */
  readonly job: Job | undefined;
  readonly sharer: Sharer | undefined;
  readonly cancellable: Cancellable | undefined;
  /** The caller that wanted a connection for itself has left. */
  isAbandoned?: boolean;
  /** `performance.now()` at which the wait times out. */
  readonly until: number;
  /** Where it waits; set by the queue. */
  line?: Line | undefined;
  /** Starts what waited, in the same turn in which the connection became free. */
  grant(connection: PooledConnection): void;
  refuse(error: Error): void;
};

/** What one caller waits for. */
type Line = {
  readonly key: string;
  readonly waiting: Waiting[];
  /** Orders the callers of several queues: when its turn was last over, or when it came. */
  turn: number;
};

/** Given to lines in order, over all queues. */
let turns = 0;

export class WaitQueue {
  /** The caller whose turn is next comes first. An empty line is passed over, or filled again at its place. */
  readonly #ring: Line[] = [];
  readonly #lines = new Map<string, Line>();
  readonly #singleFlight = new SingleFlight();
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** The first of the caller whose turn it is, among those that are still wanted. */
  get first(): Waiting | undefined {
    if (this.#length === 0) return undefined;
    for (;;) {
      const [line] = this.#ring;
      if (line === undefined) return undefined;
      const [first] = line.waiting;
      if (first === undefined) this.#passOver(line);
      else if (isWanted(first)) return first;
      else this.remove(first);
    }
  }

  push(waiting: Waiting): void {
    if (waiting.job && this.#singleFlight.share(waiting.job, waiting.until)) return;
    this.#enter(waiting).push(waiting);
  }

  /** Before all others, for what has waited its turn already. */
  pushFront(waiting: Waiting): void {
    this.#enter(waiting).unshift(waiting);
    const { line } = waiting;
    if (!line || this.#ring[0] === line) return;
    this.#ring.splice(this.#ring.indexOf(line), 1);
    line.turn = (this.#ring[0]?.turn ?? line.turn) - 1;
    this.#ring.unshift(line);
  }

  /** The first, with which the turn of its caller is over. */
  shift(): Waiting | undefined {
    const { first } = this;
    const line = first?.line;
    if (!first || !line) return undefined;
    this.remove(first);
    if (this.#ring.length > 1) {
      this.#ring.shift();
      if (line.waiting.length > 0) this.#ring.push(line);
      else this.#lines.delete(line.key);
    }
    line.turn = turns++;
    return first;
  }

  /** Leaves the queue: its caller is gone, or it is served. */
  remove(waiting: Waiting): void {
    const { line, job } = waiting;
    const at = line?.waiting.indexOf(waiting) ?? -1;
    if (at < 0) return;
    line?.waiting.splice(at, 1);
    waiting.line = undefined;
    this.#length -= 1;
    if (job) this.#singleFlight.remove(job);
  }

  /** How many places the caller holds. */
  heldBy(key: string): number {
    return this.#lines.get(key)?.waiting.length ?? 0;
  }

  /** How many batches start before the next one of this caller, with one for each caller and turn. */
  before(key: string): number {
    const own = this.heldBy(key);
    return this.#ring.reduce((sum, { waiting }) => sum + Math.min(waiting.length, own + 1), 0);
  }

  /** The earliest time at which a wait times out. */
  get timesOutAt(): number {
    // Within a caller, who came first times out first.
    return this.#ring.reduce(
      (soonest, { waiting }) => Math.min(soonest, waiting[0]?.until ?? Number.POSITIVE_INFINITY),
      Number.POSITIVE_INFINITY,
    );
  }

  /** Refuses all whose wait has timed out. */
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
    const key = turnKey(waiting.sharer, waiting.cancellable);
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

  #passOver(line: Line): void {
    this.#ring.shift();
    this.#lines.delete(line.key);
  }
}

/** Whose turn comes first; of one caller, what came first. */
export function isBefore(one: Waiting | undefined, other: Waiting): boolean {
  if (!one?.line || !other.line) return one !== undefined;
  if (one.line.key === other.line.key) return one.until < other.until;
  return one.line.turn < other.line.turn;
}

function isWanted({ job, isAbandoned }: Waiting): boolean {
  return job === undefined ? isAbandoned !== true : job.isWanted;
}
