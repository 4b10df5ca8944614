// Evaluates the database filters of the callers who may select the changed rows.
import { callerKey } from '../../lib/limits/caller-key.ts';
import { SYSTEM } from '../problem.ts';
import type { PublishedTable } from '../tables/published-tables.ts';
import type { RowTexts } from '../tables/row-values.ts';
import { TOO_SLOW, type DatabaseFilters, type FilterResults } from './filter/database-filters.ts';
import type { DatabaseFilter } from './filter/filter-query.ts';
import { countedFilters, filterTexts } from './row-access.ts';
import type { Binding, Item, Subscriber, Subscription } from './subscription.ts';

/** Subscriptions with the same caller and the same rights. Rows that one of them sees are visible to all of them. */
type FilterGroup = {
  /** Any subscription of the group. */
  readonly subscription: Subscription;
  readonly rows: Set<number>;
  readonly filters: Map<string, DatabaseFilter>;
};

/** Changes of one table, with the texts of their rows and the subscribers who may select each row. */
export type VisibleChanges = {
  readonly table: PublishedTable;
  readonly items: readonly Item[];
  readonly texts: readonly RowTexts[];
  readonly seen: ReadonlyArray<readonly Subscriber[]>;
};

export class FilterMatching {
  readonly #filters: DatabaseFilters;
  readonly #endSubscription: (subscription: Subscription) => void;

  /** `endSubscription` ends a subscription whose caller has no time left for its filters. */
  constructor(filters: DatabaseFilters, endSubscription: (subscription: Subscription) => void) {
    this.#filters = filters;
    this.#endSubscription = endSubscription;
  }

  /** Returns the subscribers of each row, without the bindings whose database filters do not match. */
  async match(changes: VisibleChanges): Promise<ReadonlyArray<readonly Subscriber[]>> {
    const { table, items, seen } = changes;
    const groups = groupFilters(changes);
    if (groups.size === 0) return seen;
    const results = await this.#evaluate(groups, changes);
    this.#endSlow(changes, results);
    return seen.map((found, row) => {
      const kind = items[row]?.kind;
      if (!kind) return [];
      return found.flatMap(({ subscription, bindings }) => {
        const matching = bindings.filter((binding) => {
          const filters = countedFilters(table, kind, subscription.caller, binding);
          if (filters.length === 0) return true;
          const result = results.get(filterGroupKey(subscription));
          return filters.every((filter) => result?.matches(filter, row) === true);
        });
        return matching.length > 0 ? [{ subscription, bindings: matching }] : [];
      });
    });
  }

  /** Returns the results by filter group. */
  async #evaluate(
    groups: ReadonlyMap<string, FilterGroup>,
    { table, items, texts }: VisibleChanges,
  ): Promise<ReadonlyMap<string, FilterResults>> {
    const results = new Map<string, FilterResults>();
    await Promise.all(
      [...groups].map(async ([key, { subscription, rows, filters }]) => {
        const { caller, address } = subscription;
        const found = await this.#filters.evaluate({
          caller: { ...caller, address },
          table,
          rows: [...rows],
          readTexts: (row) => filterTexts(table, items[row]?.kind, texts[row], caller),
          filters: [...filters.values()],
        });
        results.set(key, found);
      }),
    );
    return results;
  }

  /** Switches off bindings with a slow filter. Ends subscriptions whose filters had no time left. */
  #endSlow({ table, seen }: VisibleChanges, results: ReadonlyMap<string, FilterResults>): void {
    for (const { subscription, bindings } of seen.flat()) {
      const result = results.get(filterGroupKey(subscription));
      if (!result || result.slow.size + result.unknown.size === 0) continue;
      const has = (binding: Binding, keys: ReadonlySet<string>): boolean =>
        binding.databaseFilters(table).some(({ key }) => keys.has(key));
      const slow = bindings.filter((binding) => !binding.isBroken && has(binding, result.slow));
      for (const binding of slow) binding.isBroken = true;
      if (slow.length > 0) subscription.request.sendSystemMessage('error', SYSTEM.cannot(TOO_SLOW));
      if (bindings.some((binding) => !binding.isBroken && has(binding, result.unknown))) {
        this.#endSubscription(subscription);
      }
    }
  }
}

function groupFilters({ table, items, seen }: VisibleChanges): Map<string, FilterGroup> {
  const groups = new Map<string, FilterGroup>();
  seen.forEach((found, row) => {
    const kind = items[row]?.kind;
    if (!kind) return;
    for (const { subscription, bindings } of found) {
      const filters = bindings.flatMap((binding) =>
        countedFilters(table, kind, subscription.caller, binding),
      );
      if (filters.length === 0) continue;
      const key = filterGroupKey(subscription);
      const group = groups.get(key) ?? { subscription, rows: new Set(), filters: new Map() };
      groups.set(key, group);
      group.rows.add(row);
      for (const filter of filters) group.filters.set(filter.key, filter);
    }
  });
  return groups;
}

/** Filters with the same key may run in one statement. */
function filterGroupKey({ caller, address, group }: Subscription): string {
  return `${callerKey(caller, address)} ${group}`;
}
