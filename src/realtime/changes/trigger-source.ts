// Changes from `realtime.changes`, which triggers fill: the source for servers whose write-ahead log cannot be read. What a
// snapshot shows and the one before did not is what was committed in between; so nothing is missed, however late a
// transaction commits, and one that goes on for hours holds up nothing.
import { sql } from '../../postgres/sql.ts';
import type { Relation } from '../../postgres/replication/pgoutput.ts';
import { notReady } from '../problem.ts';
import { wait, type ChangeSource, type SourceOptions, type SourceState } from './change-source.ts';
import { readRecord } from './record-text.ts';
import { isReadLately, mayReadLog, recordMembers, stopRecording, type Recorded } from './triggers.ts';

const POLL_MS = 50;
const PAUSE_MS = { first: 250, most: 2_000 };
/** New members, a sign of life, old rows. */
const LOOK_EVERY_MS = 5_000;
const KEEP_MS = 60_000;
/** Triggers go on for ten minutes without a reader; a little less, so that it is certain. */
const KEEPS_WITHOUT_READER_MS = 9 * 60_000;
/** Whoever did not look for so long may find rows gone. */
const MOST_BETWEEN_MS = 45_000;
const ROWS_AT_ONCE = 500;

type Transaction = { readonly xid: string; readonly rows: number };

type RecordedRow = {
  readonly id: string;
  readonly xid: string;
  readonly relation: string;
  readonly kind: 'insert' | 'update' | 'delete';
  readonly columns: readonly string[];
  readonly new: string | null;
  readonly old: string | null;
  /** Milliseconds since 1970. */
  readonly at: number;
};

export type TriggerSourceOptions = SourceOptions & {
  /** The log can be read by now. Absent: nobody wants to know. */
  readonly onLog?: () => void;
};

export class TriggerSource implements ChangeSource {
  readonly #options: TriggerSourceOptions;
  readonly #closing = new AbortController();
  readonly #relations = new Map<string, Relation>();
  #tables: ReadonlyMap<string, Recorded> = new Map();
  /** By oid of the table. */
  #triggers: ReadonlyMap<string, string> = new Map();
  #state: SourceState = 'connecting';
  #since = performance.now();
  #wasLive: boolean;
  #said: string | undefined;
  #running: Promise<void> | undefined;
  #snapshot = '';
  #polls = 0n;
  #lookedAt = 0;
  /** Snapshots of the last minute, and when they were taken. */
  #past: Array<{ readonly snapshot: string; readonly at: number }> = [];
  #mayReadLog: boolean | undefined;
  #askers: Array<{ resolve: (position: bigint) => void; reject: (error: Error) => void }> = [];
  #wake = new AbortController();
  #paused: { readonly until: Promise<void>; readonly resume: () => void } | undefined;
  #dropped: string | undefined;

  constructor(options: TriggerSourceOptions) {
    this.#options = options;
    this.#wasLive = options.isSecond === true;
  }

  get state(): SourceState {
    return this.#state;
  }

  get awayMs(): number {
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
    this.#dropped = why;
    this.resume();
  }

  /** Rows wait in a table. */
  heldBytes(): Promise<bigint> {
    return Promise.resolve(0n);
  }

  /** With the next look, which is at once. */
  async position(): Promise<bigint> {
    if (this.#state !== 'triggers') throw notReady('Changes of tables cannot be read yet');
    return await new Promise((resolve, reject) => {
      this.#askers.push({ resolve, reject });
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
    let pause = PAUSE_MS.first;
    while (!signal.aborted) {
      try {
        await this.#readUntilLost(signal);
      } catch (error) {
        if (!signal.aborted) this.#explain(error);
      }
      if (this.#state === 'triggers') pause = PAUSE_MS.first;
      this.#state = 'connecting';
      this.#since = performance.now();
      for (const { reject } of this.#askers.splice(0)) {
        reject(notReady('Changes of tables cannot be read yet'));
      }
      await wait(pause, signal);
      pause = Math.min(pause * 2, PAUSE_MS.most);
    }
  }

  async #readUntilLost(signal: AbortSignal): Promise<void> {
    const { onGap } = this.#options;
    this.#dropped = undefined;
    this.#past = [];
    await this.#begin();
    const [now] = await this.#options.context.owner.query<{ snapshot: string }>(
      sql`select pg_current_snapshot()::text as snapshot`,
    );
    this.#snapshot = now?.snapshot ?? '';
    this.#state = 'triggers';
    this.#said = undefined;
    if (this.#wasLive) onGap();
    this.#wasLive = true;
    let polledAt = performance.now();
    while (!signal.aborted) {
      const askers = this.#askers.splice(0);
      this.#wake = new AbortController();
      try {
        // Somebody who joins wants to hear of all members.
        const isDue = performance.now() - this.#lookedAt > LOOK_EVERY_MS;
        if ((askers.length > 0 || isDue) && (await this.#record())) onGap();
        if (isDue) await this.#lookAfter();
        if (performance.now() - polledAt > MOST_BETWEEN_MS) throw new Error('nothing was read for too long');
        polledAt = performance.now();
        await this.#poll();
      } catch (error) {
        this.#askers.push(...askers);
        throw error;
      }
      this.#polls += 1n;
      for (const { resolve } of askers) resolve(this.#polls);
      if (this.#askers.length === 0) await wait(POLL_MS, AbortSignal.any([signal, this.#wake.signal]));
    }
  }

  async #begin(): Promise<void> {
    const { context } = this.#options;
    // Without a reader triggers kept nothing, not even of transactions that are still under way.
    const isKept = await isReadLately(context, KEEPS_WITHOUT_READER_MS);
    await this.#lookAfter();
    if (!isKept) await stopRecording(context, 'all');
    await this.#record();
  }

  /** True when some tables are told of only since the last time, whichever instance saw to it. */
  async #record(): Promise<boolean> {
    const before = this.#triggers;
    const { tables, triggers, failed } = await recordMembers(this.#options.context);
    this.#tables = tables;
    this.#triggers = triggers;
    this.#relations.clear();
    for (const [table, error] of failed) {
      this.#say(`the table ${table} could not get a trigger, so its changes are not sent to clients`, error);
    }
    return [...triggers].some(([table, trigger]) => before.get(table) !== trigger);
  }

  /** A sign of life, and what is there no longer. */
  async #lookAfter(): Promise<void> {
    const { context, onLog } = this.#options;
    this.#lookedAt = performance.now();
    await context.owner.query(sql`
      insert into realtime.change_reader (seen_at) values (clock_timestamp())
      on conflict (is_one) do update set seen_at = excluded.seen_at`);
    await stopRecording(context, 'strangers');
    const [oldest] = this.#past;
    if (oldest && performance.now() - oldest.at > KEEP_MS) {
      this.#past = this.#past.filter(({ at }) => performance.now() - at <= KEEP_MS);
      await context.owner.query(sql`
        delete from realtime.changes where xid < pg_snapshot_xmin(${oldest.snapshot}::pg_snapshot)`);
    }
    if (this.#snapshot !== '') this.#past.push({ snapshot: this.#snapshot, at: performance.now() });
    const before = this.#mayReadLog;
    this.#mayReadLog = await mayReadLog(context);
    // What was refused although it looked possible is not tried for ever: each time is a gap.
    if (this.#mayReadLog && before === false) onLog?.();
  }

  async #poll(): Promise<void> {
    const { owner } = this.#options.context;
    const [news] = await owner.query<{ snapshot: string; transactions: Transaction[] | null }>(
      sql`select pg_current_snapshot()::text as snapshot, (
        select json_agg(json_build_object('xid', t.xid, 'rows', t.rows) order by t.last) from (
          select xid::text as xid, count(*) as rows, max(id) as last from realtime.changes
          where xid >= pg_snapshot_xmin(${this.#snapshot}::pg_snapshot)
            and not pg_visible_in_snapshot(xid, ${this.#snapshot}::pg_snapshot)
          group by 1) t) as transactions`,
      'realtime-changes',
    );
    if (!news) return;
    for (const some of together(news.transactions ?? [])) await this.#tell(some);
    this.#snapshot = news.snapshot;
  }

  /** Page by page: a transaction may have millions of rows. */
  async #tell(transactions: readonly Transaction[]): Promise<void> {
    const { owner } = this.#options.context;
    const xids = transactions.map(({ xid }) => xid);
    const expected = transactions.reduce((sum, { rows }) => sum + rows, 0);
    let read = 0;
    let after = '0';
    while (read < expected) {
      const rows = await owner.query<RecordedRow>(sql`
        select c.id::text, c.xid::text, c.relation::text, c.kind, c.columns, c.new, c.old,
          (extract(epoch from c.at) * 1000)::float8 as at
        from realtime.changes c where c.xid = any (${xids}::text[]::xid8[]) and c.id > ${after}::bigint
        order by ${transactions.length > 1 ? sql`array_position(${xids}::text[], c.xid::text), c.id` : sql`c.id`}
        limit ${ROWS_AT_ONCE}::integer`);
      if (rows.length === 0) throw new Error('changes were removed before they were read');
      for (const row of rows) this.#take(row);
      read += rows.length;
      after = rows.at(-1)?.id ?? after;
      await this.#paused?.until;
      if (this.#dropped !== undefined) throw new Error(this.#dropped);
      if (this.#closing.signal.aborted) return;
    }
  }

  #take(row: RecordedRow): void {
    const relation = this.#relationOf(row);
    if (!relation) return;
    const { kind, columns } = row;
    const valuesOf = (text: string | null): Array<string | null> | undefined =>
      text === null ? undefined : readRecord(text).filter((_, at) => columns[at] !== '');
    this.#options.onChange({
      transaction: {
        kind: 'begin',
        lsn: this.#polls + 1n,
        committedAt: row.at,
        xid: Number(BigInt.asUintN(32, BigInt(row.xid))),
      },
      relation,
      change: {
        kind,
        relation: relation.oid,
        new: valuesOf(row.new),
        old: valuesOf(row.old),
        isWholeOld: relation.identity === 'f',
        bytes: (row.new?.length ?? 0) + (row.old?.length ?? 0),
      },
    });
  }

  #relationOf({ relation: oid, columns }: RecordedRow): Relation | undefined {
    const known = `${oid} ${columns.join('\0')}`;
    const found = this.#relations.get(known);
    if (found) return found;
    const table = this.#tables.get(oid);
    if (!table) return undefined;
    const key = new Set(table.key);
    const relation: Relation = {
      oid: Number(oid),
      schema: table.schema,
      table: table.name,
      identity: table.identity,
      columns: columns.filter(Boolean).map((name) => ({ name, isKey: key.has(name), type: 0 })),
    };
    this.#relations.set(known, relation);
    return relation;
  }

  #explain(error: unknown): void {
    if (this.#state === 'triggers') {
      this.#options.context.log.warn(
        { err: error },
        'changes could not be read; clients are told once they can be',
      );
      return;
    }
    this.#say('changes of tables are not sent to clients', error);
  }

  /** Once for each reason. */
  #say(what: string, error: unknown): void {
    const said = `${what}: ${error instanceof Error ? error.message : String(error)}`;
    if (said === this.#said) return;
    this.#said = said;
    this.#options.context.log.warn({ err: error }, said);
  }
}

/** Small transactions are read with one statement, each whole. */
function* together(transactions: readonly Transaction[]): Generator<Transaction[]> {
  let some: Transaction[] = [];
  let rows = 0;
  for (const one of transactions) {
    if (some.length > 0 && rows + one.rows > ROWS_AT_ONCE) {
      yield some;
      some = [];
      rows = 0;
    }
    some.push(one);
    rows += one.rows;
  }
  if (some.length > 0) yield some;
}
