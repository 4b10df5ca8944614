// Reads changes from the write-ahead log: connecting → live → lost → connecting. Each instance has a separate slot
// that ends with its connection, so instances share no state and leave no slot on the server.
import type { ConnectionSettings } from '../../../postgres/connection.ts';
import { loggedMessage } from '../../../log/error-fields.ts';
import type { Begin, Message, Relation } from '../../../postgres/replication/pgoutput.ts';
import { openReplication, type ReplicationStream } from '../../../postgres/replication/replication-stream.ts';
import { SUPPRESS_PREFIX } from '../../../postgres/replication/suppressed-changes.ts';
import { raw } from '../../../postgres/sql.ts';
import { sleep, type ChangeSource, type SourceOptions, type SourceState } from './change-source.ts';

export type WalSourceOptions = SourceOptions & {
  readonly settings: ConnectionSettings;
  /** Called when the server must be configured first. Without it, the source retries without end. */
  readonly onImpossible?: () => void;
};

const PUBLICATION = 'svc_realtime';
/** Longest pauses: `away` while the server cannot be reached, `refused` while it rejects the connection. */
const PAUSE_MS = { first: 250, away: 2_000, refused: 10_000 };
/** Creating the slot waits for running transactions. The wait is logged after this time. */
const LOG_WAIT_AFTER_MS = 5_000;

export class WalSource implements ChangeSource {
  readonly #options: WalSourceOptions;
  readonly #closing = new AbortController();
  readonly #relations = new Map<number, Relation>();
  #stream: ReplicationStream | undefined;
  #transaction: Begin | undefined;
  /** True when realtime must not publish the rest of the transaction. */
  #isSuppressed = false;
  #state: SourceState = 'connecting';
  #wasLive: boolean;
  #isRefused = false;
  #lastWarning: string | undefined;
  #since = performance.now();
  #running: Promise<void> | undefined;

  constructor(options: WalSourceOptions) {
    this.#options = options;
    this.#wasLive = options.isSecond === true;
  }

  get state(): SourceState {
    return this.#state;
  }

  get outageMs(): number {
    return this.#state === 'live' ? 0 : performance.now() - this.#since;
  }

  get wasLive(): boolean {
    return this.#wasLive;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  pause(): void {
    this.#stream?.pause();
  }

  resume(): void {
    this.#stream?.resume();
  }

  drop(why: string): void {
    this.#end?.(new Error(why));
  }

  /** Measures from the end of the last transaction, so the size of that transaction does not count. */
  async retainedWalBytes(): Promise<bigint> {
    return this.#transaction ? (await this.position()) - this.#transaction.lsn : 0n;
  }

  /** Returns the current end of the WAL. */
  async position(): Promise<bigint> {
    const [row] = await this.#options.context.owner.query<{ lsn: string }>(
      raw('select pg_current_wal_insert_lsn()::text as lsn'),
    );
    const [high = '0', low = '0'] = (row?.lsn ?? '').split('/');
    return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#stream?.close();
    this.#end?.(new Error('closed'));
    await this.#running;
  }

  #end: ((error: Error) => void) | undefined;

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    let pause: number = PAUSE_MS.first;
    while (!signal.aborted) {
      try {
        await this.#readOnce(signal);
        pause = PAUSE_MS.first;
      } catch (error) {
        this.#handleFailure(error);
      }
      if (signal.aborted) return;
      await sleep(pause, signal);
      pause = this.#wasRecentlyLive()
        ? PAUSE_MS.first
        : Math.min(pause * 2, this.#isRefused ? PAUSE_MS.refused : PAUSE_MS.away);
    }
  }

  #wasRecentlyLive(): boolean {
    return performance.now() - this.#since < PAUSE_MS.refused && this.#wasLive;
  }

  /** Resolves when the stream ends. */
  async #readOnce(signal: AbortSignal): Promise<void> {
    const { context, settings } = this.#options;
    this.#relations.clear();
    this.#transaction = undefined;
    const ended = new Promise<Error>((resolve) => {
      this.#end = resolve;
    });
    await this.#assertLogical();
    const warning = setTimeout(() => void this.#logBlockingTransaction(), LOG_WAIT_AFTER_MS);
    try {
      this.#stream = await openReplication(
        { settings, publication: PUBLICATION, signal },
        {
          onMessage: (message) => this.#receive(message),
          onLost: (error) => this.#end?.(error),
        },
      );
    } finally {
      clearTimeout(warning);
    }
    this.#state = 'live';
    this.#lastWarning = undefined;
    if (this.#wasLive) this.#options.onGap();
    this.#wasLive = true;
    const error = await ended;
    if (!signal.aborted) await this.#stream.close();
    this.#stream = undefined;
    this.#state = 'connecting';
    this.#since = performance.now();
    if (!signal.aborted) {
      context.log.warn(
        { err: error },
        'the stream of changes was lost; clients are notified when it is back',
      );
    }
  }

  /** Throws `WalLevelTooLow`. Creating a slot would fail too, and write an ERROR to the server log at each attempt. */
  async #assertLogical(): Promise<void> {
    const [row] = await this.#options.context.owner.query<{ level: string }>(
      raw(`select current_setting('wal_level') as level`),
    );
    if (row && row.level !== 'logical') throw new WalLevelTooLow();
  }

  #receive(message: Message): void {
    switch (message.kind) {
      case 'begin':
        this.#transaction = message;
        this.#isSuppressed = false;
        break;
      case 'message':
        if (message.isTransactional && message.prefix === SUPPRESS_PREFIX) this.#isSuppressed = true;
        break;
      case 'relation':
        this.#relations.set(message.relation.oid, message.relation);
        break;
      case 'insert':
      case 'update':
      case 'delete': {
        const relation = this.#relations.get(message.relation);
        if (relation && this.#transaction && !this.#isSuppressed) {
          this.#options.onChange({ transaction: this.#transaction, relation, change: message });
        }
        break;
      }
      case 'commit':
      case 'other':
        break;
    }
  }

  /** Logs each reason once. */
  #handleFailure(error: unknown): void {
    if (this.#closing.signal.aborted) return;
    const { log } = this.#options.context;
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    const remedy = REMEDIES[code];
    this.#isRefused = remedy !== undefined;
    this.#state = remedy?.isFinal === true ? 'impossible' : 'connecting';
    const reason = remedy?.text ?? loggedMessage(error);
    const { onImpossible } = this.#options;
    const isKnown = error instanceof WalLevelTooLow;
    const fields = isKnown ? {} : { err: error };
    if (remedy?.isFinal === true && onImpossible) {
      const text = `changes of tables are read by triggers, which make writing them slower: ${reason}`;
      if (isKnown) log.info(fields, text);
      else log.warn(fields, text);
      onImpossible();
      return;
    }
    if (reason === this.#lastWarning) return;
    this.#lastWarning = reason;
    log.warn(fields, `changes of tables are not sent to clients: ${reason}`);
  }

  async #logBlockingTransaction(): Promise<void> {
    const { context } = this.#options;
    const [first] = await context.owner
      .query<{ pid: number; age: string }>(
        raw(`select pid, (now() - xact_start)::text as age from pg_stat_activity
          where backend_xid is not null and datname = current_database() order by xact_start limit 1`),
      )
      .catch(() => []);
    if (!first) return;
    context.log.warn(
      { pid: first.pid, age: first.age },
      'changes of tables are sent to clients after a running transaction has ended',
    );
  }
}

const OBJECT_NOT_IN_PREREQUISITE_STATE = '55000';

/** Has the SQLSTATE that creating a slot would raise. */
class WalLevelTooLow extends Error {
  readonly code = OBJECT_NOT_IN_PREREQUISITE_STATE;
}

type Remedy = {
  readonly text: string;
  /** True if retrying cannot succeed before the server is configured. */
  readonly isFinal: boolean;
};

const REMEDIES: Readonly<Record<string, Remedy>> = {
  '42501': {
    text: 'the role svc_owner may not read the write-ahead log. As a superuser: alter role svc_owner replication;',
    isFinal: true,
  },
  [OBJECT_NOT_IN_PREREQUISITE_STATE]: {
    text: 'the WAL of the server does not contain row changes. Set wal_level = logical and restart PostgreSQL',
    isFinal: true,
  },
  '53300': { text: 'all WAL senders of the server are in use. Raise max_wal_senders', isFinal: false },
  '53400': { text: 'all replication slots are in use. Raise max_replication_slots', isFinal: false },
};
