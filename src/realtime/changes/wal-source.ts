// The write-ahead log as this instance's source of changes: connecting → live → lost → connecting. Each instance reads by
// itself, through a slot that ends with its connection, so that nothing is handed over and nothing is left behind.
import type { ConnectionSettings } from '../../postgres/connection.ts';
import type { Begin, Message, Relation } from '../../postgres/replication/pgoutput.ts';
import { openReplication, type ReplicationStream } from '../../postgres/replication/replication-stream.ts';
import { UNTOLD_PREFIX } from '../../postgres/replication/untold.ts';
import { raw } from '../../postgres/sql.ts';
import { wait, type ChangeSource, type SourceOptions, type SourceState } from './change-source.ts';

export type WalSourceOptions = SourceOptions & {
  readonly settings: ConnectionSettings;
  /** Somebody else takes over. Absent: tries again for ever. */
  readonly onImpossible?: () => void;
};

const PUBLICATION = 'svc_realtime';
/** `away`: the longest while the server cannot be reached; `refused`: while it is there and says no. */
const PAUSE_MS = { first: 250, away: 2_000, refused: 10_000 };
/** Opening the slot waits for whatever is writing; that is said after this time. */
const SAY_AFTER_MS = 5_000;

export class WalSource implements ChangeSource {
  readonly #options: WalSourceOptions;
  readonly #closing = new AbortController();
  readonly #relations = new Map<number, Relation>();
  #stream: ReplicationStream | undefined;
  #transaction: Begin | undefined;
  /** Nobody is to be told of the rest of the transaction. */
  #isUntold = false;
  #state: SourceState = 'connecting';
  #wasLive: boolean;
  #isRefused = false;
  #said: string | undefined;
  #since = performance.now();
  #running: Promise<void> | undefined;

  constructor(options: WalSourceOptions) {
    this.#options = options;
    this.#wasLive = options.isSecond === true;
  }

  get state(): SourceState {
    return this.#state;
  }

  /** How long it has not been live, in milliseconds. */
  get awayMs(): number {
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

  /** Gives up what it has not read yet, and begins anew: a gap. */
  drop(why: string): void {
    this.#end?.(new Error(why));
  }

  /** From the end of the transaction that came last: how large that one is does not count. */
  async heldBytes(): Promise<bigint> {
    return this.#transaction ? (await this.position()) - this.#transaction.lsn : 0n;
  }

  /** Where the log ends now. */
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
        this.#explain(error);
      }
      if (signal.aborted) return;
      await wait(pause, signal);
      pause = this.#wasLiveLately()
        ? PAUSE_MS.first
        : Math.min(pause * 2, this.#isRefused ? PAUSE_MS.refused : PAUSE_MS.away);
    }
  }

  #wasLiveLately(): boolean {
    return performance.now() - this.#since < PAUSE_MS.refused && this.#wasLive;
  }

  /** Ends when the stream does. */
  async #readOnce(signal: AbortSignal): Promise<void> {
    const { context, settings } = this.#options;
    this.#relations.clear();
    this.#transaction = undefined;
    const ended = new Promise<Error>((resolve) => {
      this.#end = resolve;
    });
    const say = setTimeout(() => void this.#sayWhoWrites(), SAY_AFTER_MS);
    try {
      this.#stream = await openReplication(
        { settings, publication: PUBLICATION, signal },
        {
          onMessage: (message) => this.#receive(message),
          onLost: (error) => this.#end?.(error),
        },
      );
    } finally {
      clearTimeout(say);
    }
    this.#state = 'live';
    this.#said = undefined;
    if (this.#wasLive) this.#options.onGap();
    this.#wasLive = true;
    const error = await ended;
    if (!signal.aborted) await this.#stream.close();
    this.#stream = undefined;
    this.#state = 'connecting';
    this.#since = performance.now();
    if (!signal.aborted) {
      context.log.warn({ err: error }, 'the stream of changes was lost; clients are told once it is back');
    }
  }

  #receive(message: Message): void {
    switch (message.kind) {
      case 'begin':
        this.#transaction = message;
        this.#isUntold = false;
        break;
      case 'message':
        if (message.isOfTransaction && message.prefix === UNTOLD_PREFIX) this.#isUntold = true;
        break;
      case 'relation':
        this.#relations.set(message.relation.oid, message.relation);
        break;
      case 'insert':
      case 'update':
      case 'delete': {
        const relation = this.#relations.get(message.relation);
        if (relation && this.#transaction && !this.#isUntold) {
          this.#options.onChange({ transaction: this.#transaction, relation, change: message });
        }
        break;
      }
      case 'commit':
      case 'other':
        break;
    }
  }

  /** Why it does not come up, once for each reason. */
  #explain(error: unknown): void {
    if (this.#closing.signal.aborted) return;
    const { log } = this.#options.context;
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    const remedy = REMEDIES[code];
    this.#isRefused = remedy !== undefined;
    this.#state = remedy?.isFinal === true ? 'impossible' : 'connecting';
    const said = remedy?.text ?? (error instanceof Error ? error.message : String(error));
    const { onImpossible } = this.#options;
    if (remedy?.isFinal === true && onImpossible) {
      log.warn(
        { err: error },
        `changes of tables are read by triggers, which make writing them slower: ${said}`,
      );
      onImpossible();
      return;
    }
    if (said === this.#said) return;
    this.#said = said;
    log.warn({ err: error }, `changes of tables are not sent to clients: ${said}`);
  }

  async #sayWhoWrites(): Promise<void> {
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
      'changes of tables will be sent to clients once a transaction that is writing has ended',
    );
  }
}

type Remedy = { readonly text: string; /** Nothing but an operator changes it. */ readonly isFinal: boolean };

const REMEDIES: Readonly<Record<string, Remedy>> = {
  '42501': {
    text: 'the role svc_owner may not read the write-ahead log. As a superuser: alter role svc_owner replication;',
    isFinal: true,
  },
  '55000': {
    text: 'the server does not write what is needed. Set wal_level = logical and restart PostgreSQL',
    isFinal: true,
  },
  '53300': { text: 'all WAL senders of the server are in use. Raise max_wal_senders', isFinal: false },
  '53400': { text: 'all replication slots are in use. Raise max_replication_slots', isFinal: false },
};
