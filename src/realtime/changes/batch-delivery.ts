// Delivers one batch of changes: visible → tables known → recipients chosen → sent in the order of the log.
import type { FeatureContext } from '../../http/feature.ts';
import type { RealtimeCounters } from '../counters.ts';
import type { PublishedTable, PublishedTables } from '../tables/published-tables.ts';
import type { StoredMessage } from './changes.ts';
import type { Recipients } from './recipients.ts';
import type { SourceChange } from './source/change-source.ts';
import { readStoredMessage } from './stored-message.ts';
import type { Item, Subscription } from './subscription.ts';
import { waitUntilVisible } from './transaction-visibility.ts';

export type BatchDeliveryOptions = {
  readonly context: FeatureContext;
  readonly counters: RealtimeCounters;
  readonly tables: PublishedTables;
  readonly recipients: Recipients;
  readonly subscriptions: ReadonlySet<Subscription>;
  readonly onStoredMessage: (message: StoredMessage) => void;
};

export class BatchDelivery {
  readonly #options: BatchDeliveryOptions;

  constructor(options: BatchDeliveryOptions) {
    this.#options = options;
  }

  async deliver(batch: readonly SourceChange[]): Promise<void> {
    const { context, tables, recipients, subscriptions } = this.#options;
    await waitUntilVisible(context.owner, new Set(batch.map(({ transaction }) => transaction.xid)));
    // A table may have been published after the catalog was read.
    const isNew = batch.some(
      ({ relation: { schema, table } }) => schema !== 'realtime' && !tables.get(schema, table),
    );
    await tables.refresh(isNew);
    const items: Item[] = batch.map((entry) => ({ ...entry, kind: entry.change.kind, sends: [] }));
    const byTable = this.#groupByTable(items);
    await Promise.all(
      [...byTable].map(
        async ([table, tableItems]) => await recipients.prepare(table, tableItems, subscriptions),
      ),
    );
    this.#send(items);
  }

  /** Skips changes that the table does not publish. Stored broadcasts have no table. */
  #groupByTable(items: readonly Item[]): Map<PublishedTable, Item[]> {
    const { tables, onStoredMessage } = this.#options;
    const byTable = new Map<PublishedTable, Item[]>();
    for (const item of items) {
      const { relation, kind } = item;
      if (relation.schema === 'realtime') {
        const message = kind === 'insert' ? readStoredMessage(item) : undefined;
        if (message) item.sends.push(() => onStoredMessage(message));
        continue;
      }
      const table = tables.get(relation.schema, relation.table);
      if (!table || !table.events.has(kind)) continue;
      if (kind === 'delete' && table.hidesDeletes && table.hasRowSecurity) continue;
      const tableItems = byTable.get(table);
      if (tableItems) tableItems.push(item);
      else byTable.set(table, [item]);
    }
    return byTable;
  }

  #send(items: readonly Item[]): void {
    const now = Date.now();
    for (const { sends, transaction } of items) {
      if (sends.length === 0) continue;
      this.#options.counters.observe('change', now - transaction.committedAt);
      for (const send of sends) send();
    }
  }
}
