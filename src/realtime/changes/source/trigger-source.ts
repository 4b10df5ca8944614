// Reads changes from `realtime.changes`, which triggers fill, on servers whose write-ahead log cannot be read. A poll
// reads the transactions that its snapshot shows and the previous snapshot did not. So a late commit is not missed, and
// a transaction that runs for hours blocks nothing.
import { Backoff } from '../../../lib/limits/backoff.ts';
import { loggedMessage } from '../../../log/error-fields.ts';
import { sql } from '../../../postgres/sql.ts';
import { notReady } from '../../problem.ts';
import { sleep, type ChangeSource, type SourceOptions, type SourceState } from './change-source.ts';
import {
  groupTransactions,
  readRows,
  readTransactions,
  RecordedTables,
  type Transaction,
} from './recorded-changes.ts';
import { canReadWal, hasActiveReader, recordMembers, stopRecording } from './triggers.ts';

const POLL_INTERVAL_MS = 50;
/** Interval while no client is connected. These polls only keep the snapshot recent. */
const IDLE_POLL_INTERVAL_MS = 5_000;
const PAUSE = { minMs: 250, maxMs: 2_000 };
/** Interval for new tables, the heartbeat and the deletion of old rows. */
const CHECK_INTERVAL_MS = 5_000;
const ROW_RETENTION_MS = 60_000;
/** Triggers keep recording for ten minutes without a reader. One minute less allows for delays. */
const RECORDING_GRACE_MS = 9 * 60_000;
/** Recorded rows may already be deleted after this gap between two polls. */
const MAX_POLL_GAP_MS = 45_000;

type PositionRequest = {
  readonly resolve: (position: bigint) => void;
  readonly reject: (error: Error) => void;
};

export type TriggerSourceOptions = SourceOptions & {
  /** Called when the write-ahead log has become readable. */
  readonly onWalAvailable?: () => void;
};

export class TriggerSource implements ChangeSource {
  readonly #options: TriggerSourceOptions;
  readonly #closing = new AbortController();
  readonly #recorded = new RecordedTables();
  /** Oids of the triggers by oid of their table. */
  #triggers: ReadonlyMap<string, string> = new Map();
  #state: SourceState = 'connecting';
  /** Time of the last change of the state, by `performance.now()`. */
  #since = performance.now();
  #wasLive: boolean;
  #lastWarning: string | undefined;
  #running: Promise<void> | undefined;
  #snapshot = '';
  /** Number of polls. It serves as the position of changes. */
  #polls = 0n;
  #checkedAt = 0;
  /** Snapshots of the last minute with the times at which they were taken. */
  #pastSnapshots: Array<{ readonly snapshot: string; readonly at: number }> = [];
  #canReadWal: boolean | undefined;
  #positionRequests: PositionRequest[] = [];
  #wake = new AbortController();
  #paused: { readonly until: Promise<void>; readonly resume: () => void } | undefined;
  #dropReason: string | undefined;

  constructor(options: TriggerSourceOptions) {
    this.#options = options;
    this.#wasLive = options.isSecond === true;
  }

  get state(): SourceState {
    return this.#state;
  }

  get outageMs(): number {
    return this.#state === 'triggers' ? 0 : performance.now() - this.#since;
  }

  get wasLive(): boolean {
    return this.#wasLive;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  pause(): void {
    if (this.#paused) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#paused = { until: promise, resume: resolve };
  }

  resume(): void {
    this.#paused?.resume();
    this.#paused = undefined;
  }

  drop(why: string): void {
    this.#dropReason = why;
    this.resume();
  }

  /** Recorded rows are in a table and retain no WAL. */
  retainedWalBytes(): Promise<bigint> {
    return Promise.resolve(0n);
  }

  /** Resolves after the next poll, which starts at once. Throws `JoinRefused` while the source is not live. */
  async position(): Promise<bigint> {
    if (this.#state !== 'triggers') throw notReady(NOT_READY);
    return await new Promise((resolve, reject) => {
      this.#positionRequests.push({ resolve, reject });
      this.#wake.abort();
    });
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#wake.abort();
    this.resume();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    const backoff = new Backoff(PAUSE);
    while (!signal.aborted) {
      try {
        await this.#readUntilLost(signal);
      } catch (error) {
        if (!signal.aborted) this.#logFailure(error);
      }
      if (this.#state === 'triggers') backoff.reset();
      this.#state = 'connecting';
      this.#since = performance.now();
      for (const { reject } of this.#positionRequests.splice(0)) reject(notReady(NOT_READY));
      await sleep(backoff.next(), signal);
    }
  }

  async #readUntilLost(signal: AbortSignal): Promise<void> {
    const { onGap } = this.#options;
    await this.#open();
    if (this.#wasLive) onGap();
    this.#wasLive = true;
    let polledAt = performance.now();
    while (!signal.aborted) {
      const requests = this.#positionRequests.splice(0);
      this.#wake = new AbortController();
      try {
        // A client that joins needs all published tables.
        const isDue = performance.now() - this.#checkedAt > CHECK_INTERVAL_MS;
        if ((requests.length > 0 || isDue) && (await this.#recordMembers())) onGap();
        if (isDue) await this.#maintain();
        if (performance.now() - polledAt > MAX_POLL_GAP_MS) throw new Error('the last poll was too long ago');
        polledAt = performance.now();
        await this.#poll();
      } catch (error) {
        this.#positionRequests.push(...requests);
        throw error;
      }
      this.#polls += 1n;
      for (const { resolve } of requests) resolve(this.#polls);
      await this.#sleepUntilNextPoll(AbortSignal.any([signal, this.#wake.signal]));
    }
  }

  /** Ends within 50 ms of the first listener, so that a client receives no change from before its connection. */
  async #sleepUntilNextPoll(signal: AbortSignal): Promise<void> {
    const idleUntil = performance.now() + IDLE_POLL_INTERVAL_MS - POLL_INTERVAL_MS;
    do {
      if (this.#positionRequests.length > 0) return;
      await sleep(POLL_INTERVAL_MS, signal);
    } while (!signal.aborted && !this.#options.hasListeners() && performance.now() < idleUntil);
  }

  /** Starts recording and takes the first snapshot. */
  async #open(): Promise<void> {
    const { context } = this.#options;
    this.#dropReason = undefined;
    this.#pastSnapshots = [];
    // Without a reader, triggers did not record changes, also not those of transactions that still run.
    const isRecording = await hasActiveReader(context, RECORDING_GRACE_MS);
    await this.#maintain();
    if (!isRecording) await stopRecording(context, 'all');
    await this.#recordMembers();
    const [row] = await context.owner.query<{ snapshot: string }>(
      sql`select pg_current_snapshot()::text as snapshot`,
    );
    this.#snapshot = row?.snapshot ?? '';
    this.#state = 'triggers';
    this.#lastWarning = undefined;
  }

  /** Returns true when a table has a trigger that is new since the last call. This or another instance created it. */
  async #recordMembers(): Promise<boolean> {
    const before = this.#triggers;
    const { tables, triggers, failed } = await recordMembers(this.#options.context);
    this.#recorded.set(tables);
    this.#triggers = triggers;
    for (const [table, error] of failed) {
      this.#warnOnce(
        `the table ${table} could not get a trigger, so its changes are not sent to clients`,
        error,
      );
    }
    return [...triggers].some(([table, trigger]) => before.get(table) !== trigger);
  }

  /** Sends the heartbeat of the reader, and removes triggers and rows that are not needed any more. */
  async #maintain(): Promise<void> {
    const { context, onWalAvailable } = this.#options;
    this.#checkedAt = performance.now();
    await context.owner.query(sql`
      insert into realtime.change_reader (seen_at) values (clock_timestamp())
      on conflict (is_one) do update set seen_at = excluded.seen_at`);
    await stopRecording(context, 'nonMembers');
    const [oldest] = this.#pastSnapshots;
    if (oldest && performance.now() - oldest.at > ROW_RETENTION_MS) {
      this.#pastSnapshots = this.#pastSnapshots.filter(
        ({ at }) => performance.now() - at <= ROW_RETENTION_MS,
      );
      await context.owner.query(sql`
        delete from realtime.changes where xid < pg_snapshot_xmin(${oldest.snapshot}::pg_snapshot)`);
    }
    if (this.#snapshot !== '') this.#pastSnapshots.push({ snapshot: this.#snapshot, at: performance.now() });
    const before = this.#canReadWal;
    this.#canReadWal = await canReadWal(context);
    // Only a change is reported. Otherwise a server that rejects replication would be tried without end, with a gap
    // each time.
    if (this.#canReadWal && before === false) onWalAvailable?.();
  }

  async #poll(): Promise<void> {
    const found = await readTransactions(this.#options.context.owner, this.#snapshot);
    if (!found) return;
    for (const group of groupTransactions(found.transactions)) await this.#emitRows(group);
    this.#snapshot = found.snapshot;
  }

  /** Reads page by page, because a transaction may have millions of rows. */
  async #emitRows(transactions: readonly Transaction[]): Promise<void> {
    const { context, onChange } = this.#options;
    const expected = transactions.reduce((sum, { rows }) => sum + rows, 0);
    let read = 0;
    let after = '0';
    while (read < expected) {
      const rows = await readRows(context.owner, transactions, after);
      if (rows.length === 0) throw new Error('changes were removed before they were read');
      for (const row of rows) {
        const change = this.#recorded.toChange(row, this.#polls + 1n);
        if (change) onChange(change);
      }
      read += rows.length;
      after = rows.at(-1)?.id ?? after;
      await this.#paused?.until;
      if (this.#dropReason !== undefined) throw new Error(this.#dropReason);
      if (this.#closing.signal.aborted) return;
    }
  }

  #logFailure(error: unknown): void {
    if (this.#state === 'triggers') {
      this.#options.context.log.warn(
        { err: error },
        'changes could not be read; clients are notified when reading works again',
      );
      return;
    }
    this.#warnOnce('changes of tables are not sent to clients', error);
  }

  /** Logs each reason once. */
  #warnOnce(problem: string, error: unknown): void {
    const warning = `${problem}: ${loggedMessage(error)}`;
    if (warning === this.#lastWarning) return;
    this.#lastWarning = warning;
    this.#options.context.log.warn({ err: error }, warning);
  }
}

const NOT_READY = 'Changes of tables cannot be read yet';
