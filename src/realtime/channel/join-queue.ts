// Limits the joins of an instance. A join over the limit waits for its turn. Callers take turns, and one caller gets at
// most half of the rate, so a client that joins in a loop delays its own joins and not those of others.
import { TokenBucket, TokenBuckets, type BucketRate } from '../../lib/limits/token-bucket.ts';

/** Clients send a join again after ten seconds without an answer. */
const MAX_WAIT_MS = 5_000;
const MAX_WAITING_PER_CALLER = 1_000;
const MAX_CALLERS = 10_000;
const TICK_MS = 20;

type Waiting = { readonly until: number; readonly settle: (isAdmitted: boolean) => void };

export class JoinQueue {
  readonly #joinsPerSecond: () => number;
  readonly #now: () => number;
  readonly #instance: TokenBucket;
  readonly #callers = new TokenBuckets(MAX_CALLERS);
  /** Keyed by caller, in the order of their turns. */
  readonly #queues = new Map<string, Waiting[]>();
  #tick: NodeJS.Timeout | undefined;

  /** `now` in milliseconds. */
  constructor(joinsPerSecond: () => number, now: () => number = () => performance.now()) {
    this.#joinsPerSecond = joinsPerSecond;
    this.#now = now;
    this.#instance = new TokenBucket(now);
  }

  /**
   * Resolves to true when the join is admitted, and to false when it would wait too long. `key` identifies the caller.
   */
  async admit(key: string): Promise<boolean> {
    if (this.#queues.size === 0 && this.#tryAdmit(key)) return true;
    const queue = this.#queues.get(key) ?? [];
    if (queue.length >= MAX_WAITING_PER_CALLER) return false;
    return await new Promise<boolean>((settle) => {
      queue.push({ until: this.#now() + MAX_WAIT_MS, settle });
      this.#queues.set(key, queue);
      this.#tick ??= setInterval(() => this.#admitWaiting(), TICK_MS).unref();
    });
  }

  close(): void {
    clearInterval(this.#tick);
    for (const { settle } of [...this.#queues.values()].flat()) settle(false);
    this.#queues.clear();
  }

  #tryAdmit(key: string): boolean {
    const joins = this.#joinsPerSecond();
    const callerRate: BucketRate = { perSecond: Math.max(1, joins / 2), burst: joins };
    const caller = this.#callers.get(key, this.#now);
    if (caller.level(callerRate) < 1 || !this.#instance.tryConsume(joins, joins)) return false;
    caller.spend(1);
    return true;
  }

  #admitWaiting(): void {
    this.#rejectExpired();
    // An admitted caller moves to the end of the map, where this loop reaches it again.
    for (const [key, queue] of this.#queues) {
      if (!this.#tryAdmit(key)) continue;
      queue.shift()?.settle(true);
      this.#queues.delete(key);
      if (queue.length > 0) this.#queues.set(key, queue);
    }
    if (this.#queues.size > 0) return;
    clearInterval(this.#tick);
    this.#tick = undefined;
  }

  #rejectExpired(): void {
    const now = this.#now();
    for (const [key, queue] of this.#queues) {
      while (queue[0] && queue[0].until <= now) queue.shift()?.settle(false);
      if (queue.length === 0) this.#queues.delete(key);
    }
  }
}
