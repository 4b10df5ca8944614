// What realtime has done since the start, counted where it happens. Keys come from fixed lists and from the file, never
// from what a client sends.
import type { Histogram } from '../log/metrics.ts';

export type Delivery = 'broadcast' | 'presence' | 'change';
/** `lost`: the stream ended. `behind`: clients were. `fault`: changes could not be read. `away`: it takes long to come back. */
export type GapReason = 'lost' | 'behind' | 'fault' | 'away';

export class Tally {
  /** Frames for members of this instance. */
  readonly deliveries = new Counts<Delivery>(['broadcast', 'presence', 'change']);
  /** What members of this instance, and HTTP requests to it, sent. */
  readonly received = new Counts<'broadcast' | 'presence'>(['broadcast', 'presence']);
  /** `joined`, or the code of the refusal. */
  readonly joins = new Counts<string>(['joined']);
  /** By the code of the refusal, in place of the switch to a socket. */
  readonly refusedSockets = new Counts();
  /** By the code that a socket was closed with. */
  readonly closed = new Counts();
  /** Of sockets that have ended. */
  skipped = 0;
  /** By table. */
  readonly changes = new Counts();
  readonly gaps = new Counts<GapReason>(['lost', 'behind', 'fault', 'away']);
  readonly bus = new Counts<'sent' | 'overflow' | 'holes'>(['sent', 'overflow', 'holes']);
  readonly times: Partial<Record<'change' | 'visibility' | 'probe', Histogram>> = {};

  observe(what: keyof Tally['times'], ms: number): void {
    this.times[what]?.observe('', Math.max(ms, 0) / 1_000, () => ({}));
  }

  async timed<T>(what: keyof Tally['times'], work: () => Promise<T>): Promise<T> {
    const startedAt = performance.now();
    try {
      return await work();
    } finally {
      this.observe(what, performance.now() - startedAt);
    }
  }
}

export class Counts<Key extends string = string> {
  readonly #counts: Map<Key, number>;

  /** `keys` are there from the beginning, with zero. */
  constructor(keys: readonly Key[] = []) {
    this.#counts = new Map(keys.map((key) => [key, 0]));
  }

  add(key: Key, count = 1): void {
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + count);
  }

  get(key: Key): number {
    return this.#counts.get(key) ?? 0;
  }

  get all(): ReadonlyMap<Key, number> {
    return this.#counts;
  }
}
