// Delivers the changes of the source to the channels of this instance, in the order of commits: source → backlog →
// batch → recipients → sent. When this instance lags too far, it drops the stream and notifies clients of the gap.
import type { FeatureContext } from '../../http/feature.ts';
import type { Caller } from '../../identity/caller.ts';
import type { ConnectionSettings } from '../../postgres/connection.ts';
import type { RealtimeCounters } from '../counters.ts';
import { cannotSubscribe, notReady, subscribeTimedOut, SYSTEM } from '../problem.ts';
import { PublishedTables } from '../tables/published-tables.ts';
import { Backlog } from './backlog.ts';
import { BatchDelivery } from './batch-delivery.ts';
import type { Changes, ChangesRequest, ChangesSubscription, StoredMessage } from './changes.ts';
import { DatabaseFilters } from './filter/database-filters.ts';
import { FilterError } from './filter/filter.ts';
import { Gaps } from './gap.ts';
import { Recipients } from './recipients.ts';
import type { ChangeSource, SourceChange, SourceState } from './source/change-source.ts';
import { ChosenSource } from './source/chosen-source.ts';
import { sendStatus, StatusUpdates } from './status-updates.ts';
import { Subscription } from './subscription.ts';

const JOIN_TIMEOUT_MS = 5_000;
const JOIN_POLL_MS = 50;
const CHECK_INTERVAL_MS = 1_000;

const STATES: Readonly<Record<SourceState, Changes['state']>> = {
  connecting: 'connecting',
  live: 'live',
  triggers: 'triggers',
  impossible: 'degraded',
};

export type ChangeStreamOptions = {
  readonly context: FeatureContext;
  /** Leads to the server directly, not through a pooler. */
  readonly direct: ConnectionSettings;
  readonly counters: RealtimeCounters;
  /** True while a client of this instance can receive changes. */
  readonly hasListeners: () => boolean;
};

export class ChangeStream implements Changes {
  readonly #context: FeatureContext;
  readonly #source: ChangeSource;
  readonly #backlog: Backlog;
  readonly #gaps: Gaps;
  readonly #tables: PublishedTables;
  readonly #updates: StatusUpdates;
  readonly #subscriptions = new Set<Subscription>();
  #isOn = false;
  #checkTimer: NodeJS.Timeout | undefined;
  #onStored: (message: StoredMessage) => void = () => {};

  constructor({ context, direct, counters, hasListeners }: ChangeStreamOptions) {
    this.#context = context;
    this.#gaps = new Gaps(this.#subscriptions, counters);
    this.#source = new ChosenSource({
      context,
      configured: () => context.snapshot().config.realtime.source,
      settings: direct,
      onChange: (change) => {
        if (this.#hasSubscriber(change)) this.#backlog.enqueue(change);
      },
      onGap: () => this.#gaps.notify(),
      hasListeners,
    });
    this.#tables = new PublishedTables(context);
    const filters = new DatabaseFilters(context);
    this.#updates = new StatusUpdates(context.log, this.#tables, filters);
    const delivery = new BatchDelivery({
      context,
      counters,
      tables: this.#tables,
      recipients: new Recipients(context, counters, {
        filters,
        endSubscription: (subscription) => this.#endSubscription(subscription),
      }),
      subscriptions: this.#subscriptions,
      onStoredMessage: (message) => this.#onStored(message),
    });
    this.#backlog = new Backlog({
      source: this.#source,
      deliver: async (batch) => await delivery.deliver(batch),
      onFault: (error) => this.#dropAfterFault(error),
    });
  }

  get state(): Changes['state'] {
    return this.#isOn ? STATES[this.#source.state] : 'off';
  }

  get lagMs(): number {
    return this.#backlog.lagMs;
  }

  start(): void {
    const { enabled, source } = this.#context.snapshot().config.realtime;
    if (!enabled) return;
    this.#source.start();
    if (source === 'none') return;
    this.#isOn = true;
    this.#checkTimer = setInterval(() => this.#check(), CHECK_INTERVAL_MS).unref();
  }

  async close(): Promise<void> {
    clearInterval(this.#checkTimer);
    await this.#source.close();
  }

  onStoredMessage(listener: (message: StoredMessage) => void): void {
    this.#onStored = listener;
  }

  async subscribe(request: ChangesRequest): Promise<ChangesSubscription> {
    const decline = (why: string): ChangesSubscription => {
      if (request.waitMs !== undefined) throw cannotSubscribe(why);
      request.sendSystemMessage('error', why);
      return NO_SUBSCRIPTION;
    };
    let subscription: Subscription;
    try {
      subscription = new Subscription(request);
    } catch (error) {
      if (!(error instanceof FilterError)) throw error;
      return decline(`Error parsing \`filter\` params: ${error.message}`);
    }
    if (!this.#isOn) return decline(SYSTEM.cannot('realtime.source is `none` in svc.yaml'));
    await this.#waitUntilLive(request.waitMs);
    if (this.#source.state === 'impossible') {
      return decline(
        SYSTEM.cannot('this server does not allow reading changes. The log of svc contains the reason'),
      );
    }
    await this.#open(subscription);
    return {
      changeCaller: async (caller: Caller) => {
        if (subscription.changeCaller(caller)) await this.#updates.refresh(subscription);
      },
      close: () => {
        subscription.isClosed = true;
        this.#subscriptions.delete(subscription);
      },
    };
  }

  async #open(subscription: Subscription): Promise<void> {
    const { waitMs } = subscription.request;
    await this.#tables.refresh();
    subscription.after = await this.#source.position();
    // Changes are delivered from here on, while the status is computed.
    this.#subscriptions.add(subscription);
    try {
      const status = await this.#updates.describe(subscription);
      if (waitMs !== undefined && status.faults.length > 0) {
        throw cannotSubscribe(status.faults.map(SYSTEM.cannot).join(' '));
      }
      sendStatus(subscription, status, this.#tables.version);
    } catch (error) {
      this.#subscriptions.delete(subscription);
      throw error;
    }
  }

  /** `waitMs`: how long the client asked to wait. Throws `JoinRefused` on timeout. */
  async #waitUntilLive(waitMs: number | undefined): Promise<void> {
    const deadline = performance.now() + (waitMs ?? JOIN_TIMEOUT_MS);
    while (this.#source.state === 'connecting') {
      if (performance.now() > deadline) {
        const why = 'Changes of tables cannot be read yet';
        throw waitMs === undefined ? notReady(why) : subscribeTimedOut(why);
      }
      await new Promise((resolve) => setTimeout(resolve, JOIN_POLL_MS));
    }
  }

  /** Skips changes of tables without a subscriber on this instance. */
  #hasSubscriber({ relation: { schema, table: name } }: SourceChange): boolean {
    if (schema === 'realtime') return name === 'messages';
    for (const { bindings } of this.#subscriptions) {
      if (bindings.some((binding) => binding.matchesTable({ schema, name }))) return true;
    }
    return false;
  }

  #check(): void {
    void this.#updates.notifyPublishedTables(this.#subscriptions);
    void this.#checkLag();
    this.#gaps.checkOutage(this.#source);
  }

  async #checkLag(): Promise<void> {
    const why = await this.#backlog.excessiveLag();
    if (why === undefined) return;
    this.#backlog.reset();
    this.#gaps.expect('behind');
    this.#source.drop(why);
  }

  #dropAfterFault(error: unknown): void {
    this.#context.log.warn(
      { err: error },
      'changes could not be sent to clients; clients are notified of a gap',
    );
    this.#gaps.expect('fault');
    this.#source.drop('changes could not be read');
  }

  #endSubscription(subscription: Subscription): void {
    if (subscription.isClosed) return;
    subscription.isClosed = true;
    this.#subscriptions.delete(subscription);
    subscription.request.lost();
  }
}

const NO_SUBSCRIPTION: ChangesSubscription = { changeCaller: () => Promise.resolve(), close() {} };
