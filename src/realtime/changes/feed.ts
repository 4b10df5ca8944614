// From the source of changes to the channels of this instance: what somebody wants → batch → recipients → sent. One batch
// after the other and each in the order of the log, so that clients see commits in their order. What cannot be kept up with
// is given up, and told.
import { setTimeout as sleep } from 'node:timers/promises';
import type { FeatureContext } from '../../http/feature.ts';
import type { Caller } from '../../identity/caller.ts';
import type { ConnectionSettings } from '../../postgres/connection.ts';
import { cannotSubscribe, notReady, SYSTEM, waitedInVain } from '../problem.ts';
import type { Changes, ChangesRequest, ChangesSubscription, StoredMessage } from './changes.ts';
import { FilterError } from './filter.ts';
import { findingsOf } from './findings.ts';
import { PublishedTables, type PublishedTable } from './published-tables.ts';
import { Recipients, type Item } from './recipients.ts';
import { Subscription, type Findings } from './subscription.ts';
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

export class FeedOfChanges implements Changes {
  readonly #context: FeatureContext;
  readonly #tally: Tally;
  readonly #source: ChangeSource;
  readonly #tables: PublishedTables;
  readonly #recipients: Recipients;
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
  #isTelling = false;
  #isOn = false;
  #watch: NodeJS.Timeout | undefined;
  #stored: (message: StoredMessage) => void = () => {};

  constructor(context: FeatureContext, direct: ConnectionSettings, tally: Tally) {
    this.#context = context;
    this.#tally = tally;
    this.#tables = new PublishedTables(context);
    this.#recipients = new Recipients(context, tally, (subscription) => this.#lose(subscription));
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
    if (!this.#isOn) return nothing(SYSTEM.cannot('realtime.source is `none` in svc.yaml'));
    await this.#untilLive(request.waitMs);
    if (this.#source.state === 'impossible') {
      return nothing(SYSTEM.cannot('this server does not let changes be read; its log says why'));
    }
    await this.#tables.refresh();
    subscription.after = await this.#source.position();
    // Heard from here on, while it is looked at whether that makes sense.
    this.#subscriptions.add(subscription);
    try {
      const findings = await findingsOf(subscription, this.#tables, this.#context);
      if (request.waitMs !== undefined && findings.faults.length > 0) {
        throw cannotSubscribe(findings.faults.map(SYSTEM.cannot).join(' '));
      }
      tell(subscription, findings, this.#tables.version);
    } catch (error) {
      this.#subscriptions.delete(subscription);
      throw error;
    }
    return {
      changeCaller: async (caller: Caller) => {
        if (subscription.actFor(caller)) await this.#tellAnew(subscription);
      },
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

  /** Who has signed in or out hears other things. */
  async #tellAnew(subscription: Subscription): Promise<void> {
    try {
      const { group } = subscription;
      const { version } = this.#tables;
      const findings = await findingsOf(subscription, this.#tables, this.#context);
      // Another caller may have come meanwhile, for whom it is found out anew.
      if (!subscription.isClosed && subscription.group === group) tell(subscription, findings, version);
    } catch (error) {
      this.#context.log.debug({ err: error }, 'what a channel will hear of changes could not be found out');
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
    await Promise.all(
      [...byTable].map(
        async ([table, some]) => await this.#recipients.prepare(table, some, this.#subscriptions),
      ),
    );
    const now = Date.now();
    for (const { sends, transaction } of items) {
      if (sends.length === 0) continue;
      this.#tally.observe('change', now - transaction.committedAt);
      for (const send of sends) send();
    }
  }

  /** A table that begins to tell, or that other roles may read now, is heard by those who wait for it already. */
  async #tellOfTables(): Promise<void> {
    const faulty = [...this.#subscriptions].filter(({ told }) => told && told.findings.faults.length > 0);
    if (faulty.length === 0 || this.#isTelling) return;
    this.#isTelling = true;
    try {
      await this.#tables.refresh();
      const { version } = this.#tables;
      for (const subscription of faulty) {
        if (subscription.told?.version !== version) await this.#tellAnew(subscription);
      }
    } catch (error) {
      this.#context.log.debug({ err: error }, 'the tables that tell of their changes could not be read');
    } finally {
      this.#isTelling = false;
    }
  }

  #look(): void {
    void this.#tellOfTables();
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

/** Unless it was told the same before. `version`: of the tables. */
function tell(subscription: Subscription, findings: Findings, version: number): void {
  const { request, told } = subscription;
  subscription.told = { findings, version };
  if (JSON.stringify(told?.findings) === JSON.stringify(findings)) return;
  const { faults, hints } = findings;
  if (faults.length < request.bindings.length) request.tell('ok', SYSTEM.subscribed);
  for (const hint of hints) request.tell('ok', hint);
  for (const fault of faults) request.tell('error', SYSTEM.cannot(fault));
}

const NOTHING: ChangesSubscription = { changeCaller: () => Promise.resolve(), close() {} };
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
