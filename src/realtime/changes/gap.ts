// Gaps: changes that clients may have missed. A gap ends every subscription, and clients subscribe again.
import type { GapReason, RealtimeCounters } from '../counters.ts';
import type { ChangeSource } from './source/change-source.ts';
import type { Subscription } from './subscription.ts';

/** An outage this long ends the subscriptions before the source is back. */
const OUTAGE_NOTICE_AFTER_MS = 30_000;
/** Clients join again as soon as they are notified, so the notices are spread over time. */
const GAP_NOTICE_SPREAD_MS = 2_000;
const GAP_NOTICES_PER_SECOND = 500;

export class Gaps {
  readonly #subscriptions: Set<Subscription>;
  readonly #counters: RealtimeCounters;
  /** Why this instance dropped the stream. */
  #dropReason: GapReason | undefined;
  #hasNotifiedOutage = false;

  constructor(subscriptions: Set<Subscription>, counters: RealtimeCounters) {
    this.#subscriptions = subscriptions;
    this.#counters = counters;
  }

  /** Records why the next gap occurs. */
  expect(reason: GapReason): void {
    this.#dropReason = reason;
  }

  /** Ends all subscriptions after the source is back. */
  notify(): void {
    this.#notify(this.#dropReason ?? 'lost');
    this.#dropReason = undefined;
  }

  /** Ends all subscriptions once per outage that lasts too long, so that clients notice it. */
  checkOutage({ outageMs, state }: Pick<ChangeSource, 'outageMs' | 'state'>): void {
    if (outageMs < OUTAGE_NOTICE_AFTER_MS) this.#hasNotifiedOutage = false;
    else if (!this.#hasNotifiedOutage && state === 'connecting') {
      this.#hasNotifiedOutage = true;
      this.#notify('away');
    }
  }

  #notify(reason: GapReason): void {
    this.#counters.gaps.add(reason);
    const ended = [...this.#subscriptions];
    this.#subscriptions.clear();
    const spreadMs = Math.max(GAP_NOTICE_SPREAD_MS, (ended.length / GAP_NOTICES_PER_SECOND) * 1000);
    for (const subscription of ended) {
      subscription.isClosed = true;
      setTimeout(() => subscription.request.lost(), Math.random() * spreadMs).unref();
    }
  }
}
