// Sends the status of subscriptions to their clients, and sends it again when the caller or the tables have changed.
import type { FeatureContext } from '../../http/feature.ts';
import { SYSTEM } from '../problem.ts';
import type { PublishedTables } from '../tables/published-tables.ts';
import type { DatabaseFilters } from './filter/database-filters.ts';
import { describeSubscription } from './subscription-status.ts';
import type { Subscription, SubscriptionStatus } from './subscription.ts';

export class StatusUpdates {
  readonly #log: FeatureContext['log'];
  readonly #tables: PublishedTables;
  readonly #filters: DatabaseFilters;
  #isNotifyingTables = false;

  constructor(log: FeatureContext['log'], tables: PublishedTables, filters: DatabaseFilters) {
    this.#log = log;
    this.#tables = tables;
    this.#filters = filters;
  }

  async describe(subscription: Subscription): Promise<SubscriptionStatus> {
    return await describeSubscription(subscription, this.#tables, this.#filters);
  }

  /** Recomputes the status after the channel's caller has changed. */
  async refresh(subscription: Subscription): Promise<void> {
    try {
      const { group } = subscription;
      const { version } = this.#tables;
      const status = await this.describe(subscription);
      // The caller may have changed again in the meantime. That change refreshes the status itself.
      if (!subscription.isClosed && subscription.group === group) sendStatus(subscription, status, version);
    } catch (error) {
      this.#log.debug({ err: error }, 'the status of a subscription could not be determined');
    }
  }

  /** Notifies subscribers of tables that were published, or became readable, after the subscription. */
  async notifyPublishedTables(subscriptions: Iterable<Subscription>): Promise<void> {
    const faulty = [...subscriptions].filter(
      ({ lastStatus }) => lastStatus && lastStatus.status.faults.length > 0,
    );
    if (faulty.length === 0 || this.#isNotifyingTables) return;
    this.#isNotifyingTables = true;
    try {
      await this.#tables.refresh();
      const { version } = this.#tables;
      for (const subscription of faulty) {
        if (subscription.lastStatus?.version !== version) await this.refresh(subscription);
      }
    } catch (error) {
      this.#log.debug({ err: error }, 'the published tables could not be read');
    } finally {
      this.#isNotifyingTables = false;
    }
  }
}

/** Sends the status unless it equals the last one. `version`: version of the table catalog. */
export function sendStatus(subscription: Subscription, status: SubscriptionStatus, version: number): void {
  const { request, lastStatus } = subscription;
  subscription.lastStatus = { status, version };
  if (JSON.stringify(lastStatus?.status) === JSON.stringify(status)) return;
  const { faults, hints } = status;
  if (faults.length < request.bindings.length) request.sendSystemMessage('ok', SYSTEM.subscribed);
  for (const hint of hints) request.sendSystemMessage('ok', hint);
  for (const fault of faults) request.sendSystemMessage('error', SYSTEM.cannot(fault));
}
