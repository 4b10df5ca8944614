// Runs deliveries: claims what is due, renews the leases, and records how each attempt ended. An attempt whose
// instance ends is repeated by another one, so every delivery runs at least once.
import { Backoff } from '../lib/limits/backoff.ts';
import type { Log } from '../log/log.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import {
  claim,
  deleteOld,
  readExpired,
  readNextWork,
  renewLeases,
  settle,
  type Claimed,
  type DeliveryName,
  type Ended,
  type Expired,
} from './delivery-rows.ts';
import { afterAttempt, isLastAttempt } from './state.ts';

export type Attempt = Pick<Claimed, 'event_id' | 'name' | 'body' | 'at'> & {
  /** 1 for the first one. */
  readonly number: number;
  readonly isLast: boolean;
};

/** Function that the deliveries of one declaration call. `run` does not throw. */
export type Target = DeliveryName & {
  readonly retries: number;
  readonly run: (attempt: Attempt, signal: AbortSignal) => Promise<Ended>;
};

/** A source that creates deliveries at certain times. */
export type Producer = {
  /** Creates what is due. Returns the time until the next one in milliseconds, or undefined if nothing can run yet. */
  readonly produce: () => Promise<number | undefined>;
};

export type EngineOptions = {
  readonly db: OwnerDatabase;
  readonly instance: string;
  /** Maximum number of deliveries that run at the same time in this process. */
  readonly concurrency: number;
  readonly log: Log;
  /** Called after each attempt that was recorded. */
  readonly onEnded: (target: DeliveryName, outcome: Ended['outcome'], ms: number) => void;
};

/** Interval at which work of instances that ended is found. */
const POLL_MS = 5_000;
/** The same while a delivery waits for another one with its key, which may run in another instance. */
const BLOCKED_POLL_MS = 1_000;
const RENEW_MS = 5_000;
const CLEANUP_MS = 3_600_000;
const PAUSE = { minMs: 200, maxMs: 5_000, jitter: true };

type Running = { readonly controller: AbortController; readonly ended: Promise<void> };

export class DeliveryEngine {
  readonly #options: EngineOptions;
  readonly #running = new Map<string, Running>();
  readonly #backoff = new Backoff(PAUSE);
  #targets: ReadonlyMap<string, Target> = new Map();
  #producer: Producer | undefined;
  #timer: NodeJS.Timeout | undefined;
  #renewal: NodeJS.Timeout | undefined;
  #pass: Promise<void> | undefined;
  #again = false;
  #cleanedAt = Number.NEGATIVE_INFINITY;
  #oldestDueMs = 0;
  /** No more claims. */
  #stopped = false;
  /** Attempts are interrupted. */
  #closed = false;

  constructor(options: EngineOptions) {
    this.#options = options;
  }

  /** Replaces the targets. Without targets the engine does nothing. */
  serve(targets: readonly Target[], producer: Producer): void {
    this.#targets = new Map(targets.map((target) => [targetKey(target), target]));
    this.#producer = producer;
    this.wake();
  }

  /** Looks for work now. */
  wake(): void {
    if (this.#stopped || this.#targets.size === 0) return;
    clearTimeout(this.#timer);
    this.#again = true;
    this.#pass ??= this.#passes().finally(() => {
      this.#pass = undefined;
    });
  }

  get runningCount(): number {
    return this.#running.size;
  }

  /** Time for which the oldest delivery has been due. */
  get oldestDueMs(): number {
    return this.#oldestDueMs;
  }

  /** Claims no more deliveries. Those that run continue. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#pass;
  }

  /** Interrupts running attempts, and returns their deliveries to other instances. */
  async close(): Promise<void> {
    await this.stop();
    this.#closed = true;
    for (const { controller } of this.#running.values()) controller.abort();
    await Promise.all([...this.#running.values()].map(({ ended }) => ended));
    clearInterval(this.#renewal);
  }

  async #passes(): Promise<void> {
    while (this.#again && !this.#stopped) {
      this.#again = false;
      let pauseMs: number;
      try {
        pauseMs = await this.#work();
        this.#backoff.reset();
      } catch (error) {
        pauseMs = this.#backoff.next();
        this.#options.log.warn({ err: error, job: 'deliveries' }, 'cannot read the deliveries; trying again');
      }
      if (this.#again || this.#stopped || this.#targets.size === 0) continue;
      this.#timer = setTimeout(() => this.wake(), pauseMs);
      this.#timer.unref();
    }
  }

  /** Runs what is due. Returns the pause until there may be more. */
  async #work(): Promise<number> {
    const { db, concurrency, instance } = this.#options;
    const producedMs = await this.#producer?.produce();
    if (producedMs === undefined) return BLOCKED_POLL_MS;
    const names = [...this.#targets.values()].map(({ kind, name }) => ({ kind, name }));
    let { now, waiting_at, lease_at } = await readNextWork(db, names);
    if (lease_at !== null && lease_at <= now) {
      await this.#settleExpired();
      ({ now, waiting_at, lease_at } = await readNextWork(db, names));
    }
    const waitingMs = waiting_at === null ? POLL_MS : waiting_at.getTime() - now.getTime();
    this.#oldestDueMs = Math.max(0, -waitingMs);
    let next = waitingMs;
    if (waitingMs <= 0) {
      const max = concurrency - this.#running.size;
      const claimed = max > 0 ? await claim(db, { names, max, instance }) : [];
      for (const delivery of claimed) this.#start(delivery);
      // The end of each attempt wakes the engine, too.
      if (claimed.length > 0) this.#again = true;
      next = BLOCKED_POLL_MS;
    }
    await this.#cleanUp();
    const leaseMs = lease_at === null ? POLL_MS : lease_at.getTime() - now.getTime();
    return Math.max(0, Math.min(POLL_MS, producedMs, next, Math.max(leaseMs, BLOCKED_POLL_MS)));
  }

  async #settleExpired(): Promise<void> {
    for (const expired of await readExpired(this.#options.db))
      await this.#settle(expired, {
        outcome: 'lost',
        error: 'The instance ended during the attempt.',
      });
  }

  #start(delivery: Claimed): void {
    const controller = new AbortController();
    this.#renewal ??= setInterval(() => void this.#renew(), RENEW_MS).unref();
    const ended = this.#run(delivery, controller.signal).finally(() => {
      this.#running.delete(delivery.lease);
      if (this.#running.size === 0) {
        clearInterval(this.#renewal);
        this.#renewal = undefined;
      }
      this.wake();
    });
    this.#running.set(delivery.lease, { controller, ended });
  }

  /** Never rejects. */
  async #run(delivery: Claimed, signal: AbortSignal): Promise<void> {
    const startedAt = performance.now();
    const target = this.#targets.get(targetKey(delivery));
    const { event_id, name, body, at, attempts, failures } = delivery;
    const retries = target?.retries ?? 0;
    const isLast = isLastAttempt({ attempts, failures, retries });
    const attempt = { event_id, name, body, at, number: attempts, isLast };
    let ended: Ended = (await target?.run(attempt, signal)) ?? { outcome: 'returned' };
    // A failure during the shutdown may be its effect.
    if (this.#stopped && ended.outcome === 'failed') ended = { outcome: 'returned', error: ended.error };
    const backoff = new Backoff(PAUSE);
    for (;;) {
      try {
        const isRecorded = await this.#settle(delivery, ended);
        if (isRecorded) this.#options.onEnded(delivery, ended.outcome, performance.now() - startedAt);
        return;
      } catch (error) {
        this.#options.log.warn(
          { err: error, job: 'deliveries', delivery: delivery.id },
          'cannot record a delivery',
        );
        // Its lease expires, and another instance repeats it.
        if (this.#closed) return;
        await new Promise((resolve) => setTimeout(resolve, backoff.next()).unref());
      }
    }
  }

  async #settle(delivery: Expired, ended: Ended): Promise<boolean> {
    const { db, log } = this.#options;
    const { kind, name, attempts, failures } = delivery;
    const retries = this.#targets.get(targetKey(delivery))?.retries ?? 0;
    const next = afterAttempt({ attempts, failures, retries }, ended.outcome, 0.8 + 0.4 * Math.random());
    const isRecorded = await settle(db, delivery, next, ended);
    const { outcome, requestId, status } = ended;
    const line = { delivery: delivery.id, kind, name, attempt: attempts, outcome, status, requestId };
    if (!isRecorded) log.warn(line, 'another instance repeats a delivery, because its lease had expired');
    else if (outcome === 'done' || outcome === 'returned') log.debug(line, 'a delivery has ended');
    else if (next.state === 'dead') log.error(line, 'a delivery failed, and no attempt follows');
    else log.warn(line, 'a delivery failed; another attempt follows');
    return isRecorded;
  }

  async #renew(): Promise<void> {
    const leases = [...this.#running.keys()];
    if (leases.length === 0) return;
    try {
      const valid = new Set(await renewLeases(this.#options.db, leases));
      for (const lease of leases) if (!valid.has(lease)) this.#running.get(lease)?.controller.abort();
    } catch (error) {
      this.#options.log.warn({ err: error, job: 'deliveries' }, 'cannot renew the leases of deliveries');
    }
  }

  async #cleanUp(): Promise<void> {
    const now = performance.now();
    if (now - this.#cleanedAt < CLEANUP_MS) return;
    this.#cleanedAt = now;
    await deleteOld(this.#options.db);
  }
}

function targetKey({ kind, name }: DeliveryName): string {
  return `${kind} ${name}`;
}
