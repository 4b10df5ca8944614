// Counts the events of realtime since the start. Keys come from fixed lists and from svc.yaml, never from clients.
import type { Histogram } from '../log/metrics.ts';

export type Delivery = 'broadcast' | 'presence' | 'change';
/**
 * `lost`: the stream ended. `behind`: clients lagged too far. `fault`: changes could not be read. `away`: a long
 * outage.
 */
export type GapReason = 'lost' | 'behind' | 'fault' | 'away';

export class RealtimeCounters {
  /** Frames that were sent to members of this instance. */
  readonly deliveries = new Counts<Delivery>(['broadcast', 'presence', 'change']);
  /** Messages from members of this instance and from HTTP requests. */
  readonly received = new Counts<'broadcast' | 'presence'>(['broadcast', 'presence']);
  /** Keyed by `joined` or the code of the refusal. */
  readonly joins = new Counts<string>(['joined']);
  /** Keyed by the code of the refusal. */
  readonly refusedSockets = new Counts();
  /** Keyed by close code. */
  readonly closed = new Counts();
  /** Frames that closed sockets had skipped. */
  skipped = 0;
  /** Keyed by table. */
  readonly changes = new Counts();
  readonly gaps = new Counts<GapReason>(['lost', 'behind', 'fault', 'away']);
  readonly bus = new Counts<'sent' | 'overflow' | 'holes' | 'unsigned'>([
    'sent',
    'overflow',
    'holes',
    'unsigned',
  ]);
  readonly times: Partial<Record<'change' | 'visibility' | 'probe', Histogram>> = {};

  observe(measure: keyof RealtimeCounters['times'], ms: number): void {
    this.times[measure]?.observe('', Math.max(ms, 0) / 1_000, () => ({}));
  }

  async timed<T>(timing: keyof RealtimeCounters['times'], work: () => Promise<T>): Promise<T> {
    const startedAt = performance.now();
    try {
      return await work();
    } finally {
      this.observe(timing, performance.now() - startedAt);
    }
  }
}

export class Counts<Key extends string = string> {
  readonly #counts: Map<Key, number>;

  /** `keys` start with zero. */
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
