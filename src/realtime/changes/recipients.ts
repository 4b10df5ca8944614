// Chooses the recipients of the changes of one table: texts of the rows → local filters → visibility → database filters
// → payloads. A filter that can fail is evaluated only on rows that its caller may select (decision 0155). Each step
// runs one statement for many rows, and none when no candidate is left.
import type { FeatureContext } from '../../http/feature.ts';
import type { Caller } from '../../identity/caller.ts';
import { RowVisibility } from '../access/row-visibility.ts';
import type { RealtimeCounters } from '../counters.ts';
import type { PublishedTable } from '../tables/published-tables.ts';
import { readJson, readMissing, readTexts, type RowTexts, type TextRow } from '../tables/row-values.ts';
import { FilterMatching } from './filter-matching.ts';
import type { DatabaseFilters } from './filter/database-filters.ts';
import { renderMessages, type RenderedRow } from './render.ts';
import { canCheckRows, countingColumns, filterTexts, needsVisibilityCheck, onlyKey } from './row-access.ts';
import type { Item, Subscriber, Subscription } from './subscription.ts';

export type RecipientsOptions = {
  readonly filters: DatabaseFilters;
  /** Ends a subscription whose caller has no time left for its filters. */
  readonly endSubscription: (subscription: Subscription) => void;
};

const NO_ROW: TextRow = new Map();

export class Recipients {
  readonly #context: FeatureContext;
  readonly #counters: RealtimeCounters;
  readonly #visibility: RowVisibility;
  readonly #matching: FilterMatching;

  constructor(
    context: FeatureContext,
    counters: RealtimeCounters,
    { filters, endSubscription }: RecipientsOptions,
  ) {
    this.#context = context;
    this.#counters = counters;
    this.#visibility = new RowVisibility(context, counters);
    this.#matching = new FilterMatching(filters, endSubscription);
  }

  /** Adds functions to `sends` of each change, one for each message to a recipient. */
  async prepare(
    table: PublishedTable,
    items: readonly Item[],
    subscriptions: Iterable<Subscription>,
  ): Promise<void> {
    const subscribers = [...subscriptions].flatMap((subscription) => toSubscriber(table, subscription));
    if (subscribers.length === 0) return;
    this.#counters.changes.add(`${table.schema}.${table.name}`, items.length);
    const texts = await this.#readTexts(table, items);
    // Local filters compare texts in this process and cannot fail, like leakproof operators of PostgreSQL.
    const candidates = items.map((item, n) =>
      subscribers.flatMap((subscriber) => toCandidate(table, item, texts[n], subscriber)),
    );
    const visible = await this.#visibleTo(table, items, texts, candidates);
    const seen = candidates.map((found, n) => found.filter(({ subscription }) => visible(subscription, n)));
    const matches = await this.#matching.match({ table, items, texts, seen });
    const sent = items.flatMap((item, n) => {
      const text = texts[n];
      const recipients = matches[n] ?? [];
      return text && recipients.length > 0 ? [{ item, text, recipients }] : [];
    });
    if (sent.length === 0) return;
    const json = await readJson(
      this.#context.owner,
      table,
      sent.map(({ text }) => text),
    );
    const { change: maxBytes } = this.#context.snapshot().config.realtime.limits;
    sent.forEach(({ item: { kind, transaction, change, sends }, recipients }, n) => {
      const row: RenderedRow = {
        kind,
        table,
        committedAt: transaction.committedAt,
        new: json[n]?.new,
        old: json[n]?.old,
        isTooLarge: change.bytes > maxBytes,
      };
      sends.push(...renderMessages(row, recipients));
    });
  }

  async #readTexts(table: PublishedTable, items: readonly Item[]): Promise<RowTexts[]> {
    const texts = items.map(({ relation, change }) => readTexts(relation, change, table));
    const incomplete = texts.flatMap(({ new: row, missing }, at) =>
      row && missing.length > 0 && table.key.length > 0 ? [{ at, new: row, missing }] : [],
    );
    const whole = incomplete.length > 0 ? await readMissing(this.#context.owner, table, incomplete) : [];
    const found = new Map(incomplete.map(({ at }, n) => [at, whole[n]]));
    return texts.map((text, at) => {
      const row = found.get(at) ?? text.new;
      const kind = items[at]?.kind;
      // The WAL omits the old row when the key does not change.
      const old = text.old ?? (kind === 'update' && row ? onlyKey(table, row) : undefined);
      return { new: row, old };
    });
  }

  /** Returns a function that decides whether a subscriber may select a row, by its number. */
  async #visibleTo(
    table: PublishedTable,
    items: readonly Item[],
    texts: readonly RowTexts[],
    candidates: ReadonlyArray<readonly Subscriber[]>,
  ): Promise<(subscription: Subscription, n: number) => boolean> {
    const groups = new Map<string, { caller: Caller; numbers: Set<number> }>();
    candidates.forEach((found, n) => {
      if (items[n]?.kind === 'delete') return;
      for (const { subscription } of found) {
        if (!needsVisibilityCheck(table, subscription.caller)) continue;
        const group = groups.get(subscription.group) ?? { caller: subscription.caller, numbers: new Set() };
        groups.set(subscription.group, group);
        group.numbers.add(n);
      }
    });
    const seen = new Map<string, ReadonlySet<number>>();
    await Promise.all(
      [...groups].map(async ([key, { caller, numbers }]) => {
        const checked = [...numbers];
        const rows = checked.map((n) => texts[n]?.new ?? NO_ROW);
        const found = await this.#visibility.findVisible(caller, table, rows);
        seen.set(key, new Set(checked.filter((_, at) => found.has(at))));
      }),
    );
    return ({ caller, group }, n) => {
      if (!canCheckRows(table, caller)) return false;
      if (items[n]?.kind === 'delete' || !needsVisibilityCheck(table, caller)) return true;
      return seen.get(group)?.has(n) === true;
    };
  }
}

/** Returns an empty array when no binding can match a change of the table. */
function toSubscriber(table: PublishedTable, subscription: Subscription): Subscriber[] {
  if (!canCheckRows(table, subscription.caller)) return [];
  const bindings = subscription.bindings.filter(
    (binding) =>
      !binding.isBroken &&
      binding.matchesTable(table) &&
      binding.canReference(table, subscription.caller.role),
  );
  return bindings.length > 0 ? [{ subscription, bindings }] : [];
}

/** Returns the subscriber with the bindings that the change may match, before database filters. */
function toCandidate(
  table: PublishedTable,
  { kind, transaction }: Item,
  texts: RowTexts | undefined,
  { subscription, bindings }: Subscriber,
): Subscriber[] {
  if (transaction.lsn < subscription.after || subscription.isClosed) return [];
  const { caller } = subscription;
  const shown = filterTexts(table, kind, texts, caller);
  const row = (kind === 'delete' ? shown.old : shown.new) ?? NO_ROW;
  const counts = countingColumns(table, kind, caller);
  const matching = bindings.filter(
    (binding) =>
      !binding.isBroken && binding.matchesEvent(kind) && binding.matchesLocally(table, row, counts),
  );
  return matching.length > 0 ? [{ subscription, bindings: matching }] : [];
}
