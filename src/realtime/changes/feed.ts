// From the source of changes to the channels of this instance: batch → what somebody wants → values → who may see it →
// payloads. One batch after the other and each in the order of the log, so that clients see commits in their order.
import { setTimeout as sleep } from 'node:timers/promises';
import type { FeatureContext } from '../../http/feature.ts';
import type { Caller } from '../../identity/caller.ts';
import type { ConnectionSettings } from '../../postgres/connection.ts';
import type { DatabaseRole } from '../../postgres/pool/caller-pool.ts';
import { RowVisibility } from '../access/row-visibility.ts';
import { cannotSubscribe, notReady, SYSTEM, waitedInVain } from '../problem.ts';
import { AskedConditions, type Judged } from './asked-conditions.ts';
import type { Changes, ChangesRequest, ChangesSubscription, StoredMessage } from './changes.ts';
import { FilterError } from './filter.ts';
import { findingsOf } from './findings.ts';
import { PublishedTables, type EventKind, type PublishedTable } from './published-tables.ts';
import { dataText, type RenderedRow } from './render.ts';
import { readJson, readMissing, textsOf, type AskedCondition, type RowTexts } from './row-values.ts';
import { Subscription, type Binding } from './subscription.ts';
import type { GapReason, Tally } from '../tally.ts';
import { untilVisible } from './transaction-visibility.ts';
import type { ChangeSource, SourceChange } from './change-source.ts';
import { ChosenSource } from './chosen-source.ts';

const MOST_IN_BATCH = 250;
const BATCH_BYTES = 1024 * 1024;
/** Who has so many changes at once will have more in a moment, and a question about many rows costs little more than one. */
const GATHER_FROM = 8;
const GATHER_MS = 20;
/** What waits to be worked on; beyond, the server holds back the rest. */
const MOST_WAITING = 2_000;
const MOST_WAITING_BYTES = 8 * 1024 * 1024;
/** Falling further behind gives up what is missed: the server must not keep its log for us. */
const BEHIND_MS = 30_000;
const BEHIND_BYTES = 64n * 1024n * 1024n;
const JOIN_WAITS_MS = 5_000;
const AWAY_MS = 30_000;
const LOOK_EVERY_MS = 1_000;
/** Clients that are told of a gap join again at once. */
const TOLD_OVER_MS = 2_000;
const TOLD_PER_SECOND = 500;

/** A change, and what is to be sent when its turn has come. */
type Item = SourceChange & { readonly kind: EventKind; readonly sends: Array<() => void> };

export class FeedOfChanges implements Changes {
  readonly #context: FeatureContext;
  readonly #tally: Tally;
  readonly #source: ChangeSource;
  readonly #tables: PublishedTables;
  readonly #visibility: RowVisibility;
  readonly #conditions: AskedConditions;
  readonly #subscriptions = new Set<Subscription>();
  #waiting: SourceChange[] = [];
  #waitingBytes = 0;
  #isWorking = false;
  /** When the oldest change was committed that is being worked on; Unix time in milliseconds. */
  #workingOn: number | undefined;
  /** Why the stream was given up by us. */
  #dropped: GapReason | undefined;
  #pausedAt: number | undefined;
  #hasToldAway = false;
  #isOn = false;
  #watch: NodeJS.Timeout | undefined;
  #stored: (message: StoredMessage) => void = () => {};

  constructor(context: FeatureContext, direct: ConnectionSettings, tally: Tally) {
    this.#context = context;
    this.#tally = tally;
    this.#tables = new PublishedTables(context);
    this.#visibility = new RowVisibility(context, tally);
    this.#conditions = new AskedConditions(context);
    this.#source = new ChosenSource({
      context,
      which: () => context.snapshot().config.realtime.source,
      settings: direct,
      onChange: (change) => this.#take(change),
      onGap: () => {
        this.#tellGap(this.#dropped ?? 'lost');
        this.#dropped = undefined;
      },
    });
  }

  get state(): Changes['state'] {
    if (!this.#isOn) return 'off';
    const { state } = this.#source;
    return state === 'impossible' ? 'degraded' : state;
  }

  get lagMs(): number {
    const oldest = this.#workingOn ?? this.#waiting[0]?.transaction.committedAt;
    return oldest === undefined ? 0 : Math.max(0, Date.now() - oldest);
  }

  start(): void {
    const { enabled, source } = this.#context.snapshot().config.realtime;
    if (!enabled) return;
    this.#source.start();
    if (source === 'none') return;
    this.#isOn = true;
    this.#watch = setInterval(() => this.#look(), LOOK_EVERY_MS).unref();
  }

  async close(): Promise<void> {
    clearInterval(this.#watch);
    await this.#source.close();
  }

  onStoredMessage(listener: (message: StoredMessage) => void): void {
    this.#stored = listener;
  }

  async subscribe(request: ChangesRequest): Promise<ChangesSubscription> {
    const nothing = (why: string): ChangesSubscription => {
      if (request.waitMs !== undefined) throw cannotSubscribe(why);
      request.tell('error', why);
      return NOTHING;
    };
    let subscription: Subscription;
    try {
      subscription = new Subscription(request);
    } catch (error) {
      if (!(error instanceof FilterError)) throw error;
      return nothing(`Error parsing \`filter\` params: ${error.message}`);
    }
    if (!this.#isOn) return nothing(cannot('realtime.source is `none` in svc.yaml'));
    await this.#untilLive(request.waitMs);
    if (this.#source.state === 'impossible') {
      return nothing(cannot('this server does not let changes be read; its log says why'));
    }
    await this.#tables.refresh();
    subscription.after = await this.#source.position();
    // Heard from here on, while it is looked at whether that makes sense.
    this.#subscriptions.add(subscription);
    try {
      const { faults, hints } = await findingsOf(subscription, this.#tables, this.#context);
      if (request.waitMs !== undefined && faults.length > 0) {
        throw cannotSubscribe(faults.map(cannot).join(' '));
      }
      if (faults.length < request.bindings.length) request.tell('ok', SYSTEM.subscribed);
      for (const hint of hints) request.tell('ok', hint);
      for (const fault of faults) request.tell('error', cannot(fault));
    } catch (error) {
      this.#subscriptions.delete(subscription);
      throw error;
    }
    return {
      changeCaller: (caller: Caller) => Promise.resolve(subscription.actFor(caller)),
      close: () => {
        subscription.isClosed = true;
        this.#subscriptions.delete(subscription);
      },
    };
  }

  /** `waitMs`: how long the client wants to wait; undefined: it did not say. */
  async #untilLive(waitMs: number | undefined): Promise<void> {
    const deadline = performance.now() + (waitMs ?? JOIN_WAITS_MS);
    while (this.#source.state === 'connecting') {
      if (performance.now() > deadline) {
        const why = 'Changes of tables cannot be read yet';
        throw waitMs === undefined ? notReady(why) : waitedInVain(why);
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  #take(change: SourceChange): void {
    if (!this.#isWanted(change)) return;
    this.#waiting.push(change);
    this.#waitingBytes += change.change.bytes;
    if (this.#waiting.length > MOST_WAITING || this.#waitingBytes > MOST_WAITING_BYTES) this.#pause();
    if (this.#isWorking) return;
    this.#isWorking = true;
    // What comes together with it is in the same batch.
    queueMicrotask(() => void this.#work());
  }

  /** Most of what a server writes is nobody's business here. */
  #isWanted({ relation: { schema, table: name } }: SourceChange): boolean {
    if (schema === 'realtime') return name === 'messages';
    for (const { bindings } of this.#subscriptions) {
      if (bindings.some((binding) => binding.isFor({ schema, name }))) return true;
    }
    return false;
  }

  #pause(): void {
    this.#pausedAt ??= performance.now();
    this.#source.pause();
  }

  async #work(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#nextBatch();
      this.#workingOn = batch[0]?.transaction.committedAt;
      try {
        await this.#deliver(batch);
      } catch (error) {
        this.#context.log.warn(
          { err: error },
          'changes could not be sent to clients; they are told of a gap',
        );
        this.#forgetWaiting();
        this.#dropped = 'fault';
        this.#source.drop('changes could not be read');
      }
      if (batch.length >= GATHER_FROM && this.#waiting.length < MOST_IN_BATCH) await sleep(GATHER_MS);
      if (this.#pausedAt !== undefined && this.#waiting.length < MOST_WAITING / 2) {
        this.#pausedAt = undefined;
        this.#source.resume();
      }
    }
    this.#isWorking = false;
    this.#workingOn = undefined;
  }

  #nextBatch(): SourceChange[] {
    let bytes = 0;
    let count = 0;
    for (const { change } of this.#waiting) {
      if (count > 0 && (count >= MOST_IN_BATCH || bytes + change.bytes > BATCH_BYTES)) break;
      bytes += change.bytes;
      count += 1;
    }
    this.#waitingBytes -= bytes;
    return this.#waiting.splice(0, count);
  }

  #forgetWaiting(): void {
    this.#waiting = [];
    this.#waitingBytes = 0;
  }

  async #deliver(batch: readonly SourceChange[]): Promise<void> {
    const { owner } = this.#context;
    const xids = new Set(batch.map(({ transaction }) => transaction.xid));
    await untilVisible(owner, xids);
    // A table may have become a member after the catalog was read.
    const isNew = batch.some(
      ({ relation: { schema, table } }) => schema !== 'realtime' && !this.#tables.get(schema, table),
    );
    await this.#tables.refresh(isNew);
    const items: Item[] = batch.map((one) => ({ ...one, kind: one.change.kind, sends: [] }));
    const byTable = new Map<PublishedTable, Item[]>();
    for (const item of items) {
      const { relation, kind } = item;
      if (relation.schema === 'realtime') {
        const message = kind === 'insert' ? storedMessage(item) : undefined;
        if (message) item.sends.push(() => this.#stored(message));
        continue;
      }
      const table = this.#tables.get(relation.schema, relation.table);
      if (!table || !table.events.has(kind)) continue;
      if (kind === 'delete' && table.hidesDeletes && table.hasRowSecurity) continue;
      const others = byTable.get(table);
      if (others) others.push(item);
      else byTable.set(table, [item]);
    }
    await Promise.all([...byTable].map(async ([table, some]) => await this.#prepare(table, some)));
    const now = Date.now();
    for (const { sends, transaction } of items) {
      if (sends.length === 0) continue;
      this.#tally.observe('change', now - transaction.committedAt);
      for (const send of sends) send();
    }
  }

  /** Finds out for changes of one table who gets what. */
  async #prepare(table: PublishedTable, items: readonly Item[]): Promise<void> {
    const { owner } = this.#context;
    const subscribers = [...this.#subscriptions]
      .map((subscription) => ({
        subscription,
        bindings: subscription.bindings.filter(
          (binding) =>
            !binding.isBroken && binding.isFor(table) && binding.mayAsk(table, subscription.caller.role),
        ),
      }))
      .filter(({ bindings }) => bindings.length > 0);
    if (subscribers.length === 0) return;
    this.#tally.changes.add(`${table.schema}.${table.name}`, items.length);
    const texts = await this.#textsOf(table, items);
    const judged = await this.#judge(table, texts, subscribers);
    const { change: largest } = this.#context.snapshot().config.realtime.limits;
    // By change and subscriber, the bindings that match.
    const matches = items.map(({ kind, transaction }, n) => {
      const row = (kind === 'delete' ? texts[n]?.old : texts[n]?.new) ?? NO_ROW;
      return subscribers.flatMap(({ subscription, bindings }) => {
        if (transaction.lsn < subscription.after || subscription.isClosed) return [];
        const counts = countingColumns(table, kind, subscription.caller);
        const matching = bindings.filter(
          (binding) =>
            !binding.isBroken &&
            binding.wants(kind) &&
            binding.holdsLocally(table, row, counts) &&
            binding
              .conditionsToAsk(table)
              .every((one) => !counts(one.condition.column) || judged.holds(one, n)),
        );
        return matching.length > 0 ? [{ subscription, bindings: matching }] : [];
      });
    });
    const visible = await this.#visibleTo(table, items, texts, matches);
    const receivers = matches.map((found, n) => found.filter(({ subscription }) => visible(subscription, n)));
    // Most rows of a table with policies are nobody's business here: their values are not asked for.
    const sent = items.flatMap((item, n) => {
      const text = texts[n];
      const found = receivers[n] ?? [];
      return text && found.length > 0 ? [{ item, text, found }] : [];
    });
    if (sent.length === 0) return;
    const json = await readJson(
      owner,
      table,
      sent.map(({ text }) => text),
    );
    sent.forEach(({ item: { kind, transaction, change, sends }, found }, n) => {
      const row: RenderedRow = {
        kind,
        table,
        committedAt: transaction.committedAt,
        new: json[n]?.new,
        old: json[n]?.old,
        isTooLarge: change.bytes > largest,
      };
      const rendered = new Map<string, string>();
      for (const { subscription, bindings } of found) {
        for (const [columns, ids] of idsByColumns(bindings)) {
          const { role } = subscription.caller;
          const key = `${role} ${columns ? [...columns].join() : '*'}`;
          const data = rendered.get(key) ?? dataText(row, role, columns);
          rendered.set(key, data);
          const payload = `{"ids":${JSON.stringify(ids)},"data":${data}}`;
          sends.push(() => {
            if (!subscription.isClosed) subscription.request.deliver(payload);
          });
        }
      }
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
          subscription.request.tell('error', cannot(why));
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

  #look(): void {
    if (this.#pausedAt !== undefined) {
      if (performance.now() - this.#pausedAt > BEHIND_MS) this.#giveUp('clients were more than 30 s behind');
      else void this.#lookAtLog(this.#pausedAt);
    }
    // An app should know that nothing comes, although the next join has to wait as well.
    if (this.#source.awayMs < AWAY_MS) this.#hasToldAway = false;
    else if (!this.#hasToldAway && this.#source.state === 'connecting') {
      this.#hasToldAway = true;
      this.#tellGap('away');
    }
  }

  /** A server that writes much keeps much, even for half a minute. */
  async #lookAtLog(pausedAt: number): Promise<void> {
    // A database that does not answer writes nothing either.
    const held = await this.#source.heldBytes().catch(() => 0n);
    // The answer may come late, when something else is being waited for.
    if (held > BEHIND_BYTES && this.#pausedAt === pausedAt) {
      this.#giveUp('clients were more than 64 MB of the write-ahead log behind');
    }
  }

  #giveUp(why: string): void {
    this.#pausedAt = undefined;
    this.#forgetWaiting();
    this.#dropped = 'behind';
    this.#source.drop(why);
  }

  #lose(subscription: Subscription): void {
    if (subscription.isClosed) return;
    subscription.isClosed = true;
    this.#subscriptions.delete(subscription);
    subscription.request.lost();
  }

  #tellGap(reason: GapReason): void {
    this.#tally.gaps.add(reason);
    const told = [...this.#subscriptions];
    this.#subscriptions.clear();
    const overMs = Math.max(TOLD_OVER_MS, (told.length / TOLD_PER_SECOND) * 1000);
    for (const subscription of told) {
      subscription.isClosed = true;
      setTimeout(() => subscription.request.lost(), Math.random() * overMs).unref();
    }
  }
}

type Subscriber = { readonly subscription: Subscription; readonly bindings: readonly Binding[] };

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

const NOTHING: ChangesSubscription = { changeCaller: () => Promise.resolve(), close() {} };
const NO_ROW: ReadonlyMap<string, string | null> = new Map();

function cannot(why: string): string {
  return `Unable to subscribe to changes with given parameters. ${why[0]?.toUpperCase()}${why.slice(1)}`;
}

function onlyKey(
  { key }: PublishedTable,
  row: ReadonlyMap<string, string | null>,
): ReadonlyMap<string, string | null> {
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

function storedMessage({ relation, change }: SourceChange): StoredMessage | undefined {
  const value = (name: string): string | undefined => {
    const at = relation.columns.findIndex((column) => column.name === name);
    return change.new?.[at] ?? undefined;
  };
  const [id, topic] = [value('id'), value('topic')];
  if (id === undefined || topic === undefined || value('extension') !== 'broadcast') return undefined;
  const binary = value('binary_payload');
  return {
    id,
    topic,
    event: value('event') ?? '',
    private: value('private') === 't',
    payload: value('payload'),
    binary: binary === undefined ? undefined : Buffer.from(binary.slice('\\x'.length), 'hex'),
  };
}
