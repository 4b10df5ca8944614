// Limits a rate: a bucket that is refilled evenly. The tokens are requests, messages or milliseconds of work.
import { Cache } from '../cache.ts';

export type BucketRate = {
  /** Tokens that are added in a second. */
  readonly perSecond: number;
  /** Capacity of the bucket, in tokens. */
  readonly burst: number;
};

export class TokenBucket {
  readonly #now: () => number;
  #tokens = Number.POSITIVE_INFINITY;
  #filledAt = 0;

  /** `now` in milliseconds. The bucket starts full. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Takes one token, or returns false. The rate may change between calls. */
  tryConsume(perSecond: number, burst: number): boolean {
    if (this.level({ perSecond, burst }) < 1) return false;
    this.spend(1);
    return true;
  }

  /** Returns the tokens in the bucket. Negative after `spend` took more than there were. */
  level({ perSecond, burst }: BucketRate): number {
    const now = this.#now();
    this.#tokens = Math.min(burst, this.#tokens + ((now - this.#filledAt) / 1000) * perSecond);
    this.#filledAt = now;
    return this.#tokens;
  }

  /** Takes tokens after the fact, for work whose cost is known only at its end. Call `level` before. */
  spend(tokens: number): void {
    this.#tokens -= tokens;
  }
}

/** Token buckets by key, bounded to limit memory. Beyond the bound, the least recently used key restarts. */
export class TokenBuckets {
  readonly #buckets: Cache<string, TokenBucket>;

  constructor(max: number) {
    this.#buckets = new Cache(max);
  }

  /** `now` is the clock of a new bucket. */
  get(key: string, now?: () => number): TokenBucket {
    let bucket = this.#buckets.get(key);
    if (!bucket) this.#buckets.set(key, (bucket = new TokenBucket(now)));
    return bucket;
  }
}
