// Shares a limited resource among callers: slots, bytes or connections. A caller can hold about three quarters of it.
// The rest serves callers that hold nothing (docs/decisions/0157).

/** Units that a reserve has at least, if the total allows it. */
const MIN_RESERVE = 2;

/** Returns how many units only callers without a unit can take: a quarter, at least 2, never more than half. */
export function defaultReserve(total: number): number {
  if (total === Number.POSITIVE_INFINITY) return 0;
  const quarter = total - Math.floor((total * 3) / 4);
  return Math.min(Math.max(quarter, MIN_RESERVE), Math.floor(total / 2));
}

export type Units = {
  /** Units that no caller holds. */
  readonly free: number;
  /** Units that only callers without a unit can take. */
  readonly reserve: number;
  /** Units that the caller holds. */
  readonly held: number;
};

/** Whether a caller can take `amount` more units. */
export function canTake({ free, reserve, held }: Units, amount = 1): boolean {
  return free - amount >= (held === 0 ? 0 : reserve);
}

export type FairShareOptions = {
  /** Units in all. Evaluated on each call, so that a reload takes effect. */
  readonly total: () => number;
  /** Maximum number of units of one key. Default: what the reserve leaves. */
  readonly maxPerKey?: (() => number) | undefined;
  /** Default: `reserveOf(total)`. */
  readonly reserve?: (() => number) | undefined;
  /** Maximum wait in `acquire`. Default: 0, which rejects at once. */
  readonly maxWaitMs?: number | undefined;
  /** Maximum number of waiting callers of one key. */
  readonly maxWaitingPerKey?: number | undefined;
  /** The error of a rejected `acquire`. */
  readonly refusal: () => Error;
};

/** Returns the units. Further calls have no effect. */
export type Release = () => void;

type Waiter = {
  readonly amount: number;
  readonly timer: NodeJS.Timeout;
  readonly grant: (release: Release) => void;
};

export class FairShare {
  readonly #options: FairShareOptions;
  readonly #held = new Map<string, number>();
  /** Waiting callers by key. The key whose turn is next comes first. */
  readonly #queue = new Map<string, Waiter[]>();
  #used = 0;

  constructor(options: FairShareOptions) {
    this.#options = options;
  }

  get used(): number {
    return this.#used;
  }

  get waiting(): number {
    return [...this.#queue.values()].reduce((sum, { length }) => sum + length, 0);
  }

  heldBy(key: string): number {
    return this.#held.get(key) ?? 0;
  }

  /** Whether `tryTake` would succeed. Waiting callers of other keys come first only while units are short. */
  hasRoom(key: string, amount = 1): boolean {
    const { total, maxPerKey, reserve } = this.#options;
    const all = total();
    const held = this.heldBy(key);
    if (maxPerKey && held + amount > maxPerKey()) return false;
    return canTake(
      { free: all - this.#used, reserve: reserve ? reserve() : defaultReserve(all), held },
      amount,
    );
  }

  /** Takes units without waiting. Returns undefined if there is no room for this key. */
  tryTake(key: string, amount = 1): Release | undefined {
    return this.hasRoom(key, amount) ? this.#grant(key, amount) : undefined;
  }

  /** Takes units, or waits for them. Keys take turns. Rejects with `refusal` after `maxWaitMs`. */
  async acquire(key: string, { amount = 1, signal }: AcquireOptions = {}): Promise<Release> {
    const { maxWaitMs = 0, maxWaitingPerKey = Number.POSITIVE_INFINITY, refusal } = this.#options;
    const line = this.#queue.get(key) ?? [];
    const release = line.length === 0 ? this.tryTake(key, amount) : undefined;
    if (release) return release;
    if (maxWaitMs === 0 || line.length >= maxWaitingPerKey || signal?.aborted === true) throw refusal();
    return await new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#remove(key, waiter);
        signal?.removeEventListener('abort', leave);
        reject(refusal());
      };
      const waiter: Waiter = {
        amount,
        timer: setTimeout(leave, maxWaitMs),
        grant: (granted) => {
          clearTimeout(waiter.timer);
          signal?.removeEventListener('abort', leave);
          resolve(granted);
        },
      };
      signal?.addEventListener('abort', leave);
      this.#queue.set(key, [...line, waiter]);
    });
  }

  #grant(key: string, amount: number): Release {
    this.#add(key, amount);
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      this.#add(key, -amount);
      this.#serve();
    };
  }

  #add(key: string, amount: number): void {
    this.#used += amount;
    const held = this.heldBy(key) + amount;
    if (held > 0) this.#held.set(key, held);
    else this.#held.delete(key);
  }

  /** Grants units to waiting callers, one for each key and turn. */
  #serve(): void {
    for (;;) {
      const next = [...this.#queue].find(([key, [first]]) => first && this.hasRoom(key, first.amount));
      const waiter = next?.[1][0];
      if (!next || !waiter) return;
      const [key] = next;
      this.#remove(key, waiter);
      const rest = this.#queue.get(key);
      if (rest) {
        // The turn of this key is over.
        this.#queue.delete(key);
        this.#queue.set(key, rest);
      }
      waiter.grant(this.#grant(key, waiter.amount));
    }
  }

  #remove(key: string, waiter: Waiter): void {
    clearTimeout(waiter.timer);
    const rest = (this.#queue.get(key) ?? []).filter((candidate) => candidate !== waiter);
    if (rest.length > 0) this.#queue.set(key, rest);
    else this.#queue.delete(key);
  }
}

type AcquireOptions = {
  readonly amount?: number | undefined;
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
};
