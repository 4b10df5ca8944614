// Who gets which message of the changes of one table: texts of the rows → filters → who may see them → payloads. Each step
// is one question to PostgreSQL about many rows, and none where nobody is left.
import type { FeatureContext } from '../../http/feature.ts';
import type { Caller } from '../../identity/caller.ts';
import type { DatabaseRole } from '../../postgres/pool/caller-pool.ts';
import { RowVisibility } from '../access/row-visibility.ts';
import { SYSTEM } from '../problem.ts';
import type { Tally } from '../tally.ts';
import { AskedConditions, type Judged } from './asked-conditions.ts';
import type { SourceChange } from './change-source.ts';
import type { EventKind, PublishedTable } from './published-tables.ts';
import { dataText, type RenderedRow } from './render.ts';
import {
  readJson,
  readMissing,
  textsOf,
  type AskedCondition,
  type RowTexts,
  type TextRow,
} from './row-values.ts';
import type { Binding, Subscription } from './subscription.ts';

/** A change, and what is to be sent when its turn has come. */
export type Item = SourceChange & { readonly kind: EventKind; readonly sends: Array<() => void> };

type Subscriber = { readonly subscription: Subscription; readonly bindings: readonly Binding[] };

const NO_ROW: TextRow = new Map();

export class Recipients {
  readonly #context: FeatureContext;
  readonly #tally: Tally;
  readonly #lose: (subscription: Subscription) => void;
  readonly #visibility: RowVisibility;
  readonly #conditions: AskedConditions;

  /** `lose` is for whoever cannot be told because a filter could not be judged in time. */
  constructor(context: FeatureContext, tally: Tally, lose: (subscription: Subscription) => void) {
    this.#context = context;
    this.#tally = tally;
    this.#lose = lose;
    this.#visibility = new RowVisibility(context, tally);
    this.#conditions = new AskedConditions(context);
  }

  /** Adds to `sends` of each change what its recipients get. */
  async prepare(
    table: PublishedTable,
    items: readonly Item[],
    subscriptions: Iterable<Subscription>,
  ): Promise<void> {
    const subscribers = [...subscriptions].flatMap((subscription) => subscriberOf(table, subscription));
    if (subscribers.length === 0) return;
    this.#tally.changes.add(`${table.schema}.${table.name}`, items.length);
    const texts = await this.#textsOf(table, items);
    const judged = await this.#judge(table, texts, subscribers);
    const matches = items.map((item, n) => {
      const row = (item.kind === 'delete' ? texts[n]?.old : texts[n]?.new) ?? NO_ROW;
      const holds = (condition: AskedCondition): boolean => judged.holds(condition, n);
      return subscribers.flatMap((subscriber) => matchOf(table, item, row, holds, subscriber));
    });
    const visible = await this.#visibleTo(table, items, texts, matches);
    // Most rows of a table with policies are nobody's business here: their values are not asked for.
    const sent = items.flatMap((item, n) => {
      const text = texts[n];
      const recipients = matches[n]?.filter(({ subscription }) => visible(subscription, n)) ?? [];
      return text && recipients.length > 0 ? [{ item, text, recipients }] : [];
    });
    if (sent.length === 0) return;
    const json = await readJson(
      this.#context.owner,
      table,
      sent.map(({ text }) => text),
    );
    const { change: largest } = this.#context.snapshot().config.realtime.limits;
    sent.forEach(({ item: { kind, transaction, change, sends }, recipients }, n) => {
      const row: RenderedRow = {
        kind,
        table,
        committedAt: transaction.committedAt,
        new: json[n]?.new,
        old: json[n]?.old,
        isTooLarge: change.bytes > largest,
      };
      sends.push(...messagesOf(row, recipients));
    });
  }

  async #judge(
    table: PublishedTable,
    texts: readonly RowTexts[],
    subscribers: readonly Subscriber[],
  ): Promise<Judged> {
    const asked = new Map<DatabaseRole, Set<AskedCondition>>();
    for (const { subscription, bindings } of subscribers) {
      const { role } = subscription.caller;
      for (const condition of bindings.flatMap((binding) => binding.conditionsToAsk(table))) {
        const some = asked.get(role);
        if (some) some.add(condition);
        else asked.set(role, new Set([condition]));
      }
    }
    const judged = await this.#conditions.judge(table, texts, asked);
    if (judged.broken.size + judged.unknown.size === 0) return judged;
    for (const { subscription, bindings } of subscribers) {
      for (const binding of bindings) {
        const conditions = binding.conditionsToAsk(table);
        const why = conditions.map((one) => judged.broken.get(one)).find((text) => text !== undefined);
        if (why !== undefined) {
          binding.isBroken = true;
          subscription.request.tell('error', SYSTEM.cannot(why));
        } else if (conditions.some((one) => judged.unknown.has(one))) this.#lose(subscription);
      }
    }
    return judged;
  }

  async #textsOf(table: PublishedTable, items: readonly Item[]): Promise<RowTexts[]> {
    const texts = items.map(({ relation, change }) => textsOf(relation, change, table));
    const incomplete = texts.flatMap(({ new: row, missing }, at) =>
      row && missing.length > 0 && table.key.length > 0 ? [{ at, new: row, missing }] : [],
    );
    const whole = incomplete.length > 0 ? await readMissing(this.#context.owner, table, incomplete) : [];
    const found = new Map(incomplete.map(({ at }, n) => [at, whole[n]]));
    return texts.map((text, at) => {
      const row = found.get(at) ?? text.new;
      const kind = items[at]?.kind;
      // The log leaves out the old row where the key stays the same.
      const old = text.old ?? (kind === 'update' && row ? onlyKey(table, row) : undefined);
      return { new: row, old };
    });
  }

  async #visibleTo(
    table: PublishedTable,
    items: readonly Item[],
    texts: readonly RowTexts[],
    matches: ReadonlyArray<ReadonlyArray<{ readonly subscription: Subscription }>>,
  ): Promise<(subscription: Subscription, n: number) => boolean> {
    const groups = new Map<string, { caller: Caller; numbers: Set<number> }>();
    matches.forEach((found, n) => {
      if (items[n]?.kind === 'delete') return;
      for (const { subscription } of found) {
        if (!this.#isAsked(table, subscription.caller)) continue;
        const group = groups.get(subscription.group) ?? { caller: subscription.caller, numbers: new Set() };
        groups.set(subscription.group, group);
        group.numbers.add(n);
      }
    });
    const seen = new Map<string, ReadonlySet<number>>();
    await Promise.all(
      [...groups].map(async ([key, { caller, numbers }]) => {
        const asked = [...numbers];
        const rows = asked.map((n) => texts[n]?.new ?? NO_ROW);
        const found = await this.#visibility.ask(caller, table, rows);
        seen.set(key, new Set(asked.filter((_, at) => found.has(at))));
      }),
    );
    return ({ caller, group }, n) => {
      if (table.selectable[caller.role].size === 0) return false;
      if (items[n]?.kind === 'delete' || !this.#isAsked(table, caller)) return true;
      return seen.get(group)?.has(n) === true;
    };
  }

  /** Without its key no row can be looked for: the client is told so instead. */
  #isAsked(table: PublishedTable, { role }: Caller): boolean {
    const mayFind = table.key.length > 0 && table.key.every((name) => table.selectable[role].has(name));
    return table.hasRowSecurity && role !== 'service_role' && mayFind;
  }
}

/** Nobody, where none of its bindings can hear of the table. */
function subscriberOf(table: PublishedTable, subscription: Subscription): Subscriber[] {
  const bindings = subscription.bindings.filter(
    (binding) => !binding.isBroken && binding.isFor(table) && binding.mayAsk(table, subscription.caller.role),
  );
  return bindings.length > 0 ? [{ subscription, bindings }] : [];
}

/** The subscriber with those of its bindings that the change matches; nothing without any. */
function matchOf(
  table: PublishedTable,
  { kind, transaction }: Item,
  row: TextRow,
  holds: (condition: AskedCondition) => boolean,
  { subscription, bindings }: Subscriber,
): Subscriber[] {
  if (transaction.lsn < subscription.after || subscription.isClosed) return [];
  const counts = countingColumns(table, kind, subscription.caller);
  const matching = bindings.filter(
    (binding) =>
      !binding.isBroken &&
      binding.wants(kind) &&
      binding.holdsLocally(table, row, counts) &&
      binding.conditionsToAsk(table).every((one) => !counts(one.condition.column) || holds(one)),
  );
  return matching.length > 0 ? [{ subscription, bindings: matching }] : [];
}

/** What sends the change to each of them. Those who see the same columns share the text. */
function messagesOf(row: RenderedRow, recipients: readonly Subscriber[]): Array<() => void> {
  const rendered = new Map<string, string>();
  return recipients.flatMap(({ subscription, bindings }) => {
    const { role } = subscription.caller;
    return idsByColumns(bindings).map(([columns, ids]) => {
      const key = `${role} ${columns ? [...columns].join() : '*'}`;
      const data = rendered.get(key) ?? dataText(row, role, columns);
      rendered.set(key, data);
      const payload = `{"ids":${JSON.stringify(ids)},"data":${data}}`;
      return () => {
        if (!subscription.isClosed) subscription.request.deliver(payload);
      };
    });
  });
}

/**
 * Which conditions count. Nobody can be asked who could see a row that is gone, so a filter must not tell of it what its
 * key does not.
 */
function countingColumns(
  table: PublishedTable,
  kind: EventKind,
  { role }: Caller,
): (column: string) => boolean {
  if (kind !== 'delete' || !table.hasRowSecurity || !table.hasWholeOld || role === 'service_role') {
    return () => true;
  }
  return (column) => table.key.includes(column);
}

function onlyKey({ key }: PublishedTable, row: TextRow): TextRow {
  return new Map(key.map((name) => [name, row.get(name) ?? null]));
}

/** Bindings that want the same columns share a message. */
function idsByColumns(
  bindings: readonly Binding[],
): ReadonlyArray<readonly [columns: ReadonlySet<string> | undefined, ids: number[]]> {
  const found = new Map<string, [ReadonlySet<string> | undefined, number[]]>();
  for (const { columns, asked } of bindings) {
    const key = columns ? JSON.stringify([...columns]) : '*';
    const entry = found.get(key);
    if (entry) entry[1].push(asked.id);
    else found.set(key, [columns, [asked.id]]);
  }
  return [...found.values()];
}
