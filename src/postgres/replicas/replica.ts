// One replica: its connections, and whether reads may be sent there.
import type { Log } from '../../log/log.ts';
import type { ConnectionSettings } from '../connection.ts';
import type { CallerPool } from '../pool/caller-pool.ts';
import { AskedServer, parsePosition, type Position } from './position.ts';
import type { Unreplayed } from './replay-check.ts';

export type ReplicaSettings = {
  /** `host:port`, for messages. */
  readonly target: string;
  readonly pool: CallerPool;
  /** For the connection that looks how far it has got. */
  readonly connection: ConnectionSettings;
  readonly log: Log;
};

/** Why it is not read from. */
export type ReplicaState = 'in use' | 'unknown' | 'no standby' | 'unreachable' | 'resting';

const WHERE = 'select pg_is_in_recovery(), pg_last_wal_replay_lsn()';
/** Reads that found it behind are counted over this span. */
const SPAN_MS = 5_000;
const REST_MS = 5_000;
/** How long a connection like those of reads may take to answer, before the first read. */
const ANSWER_MS = 2_000;

export class Replica {
  readonly target: string;
  readonly pool: CallerPool;
  readonly #server: AskedServer;
  readonly #log: Log;
  #state: Exclude<ReplicaState, 'resting'> = 'unknown';
  #position: Position | undefined;
  #restsUntil = Number.NEGATIVE_INFINITY;
  #span = { since: Number.NEGATIVE_INFINITY, reads: 0, late: 0 };
  #isLooking = false;

  constructor({ target, pool, connection, log }: ReplicaSettings) {
    this.target = target;
    this.pool = pool;
    this.#log = log;
    this.#server = new AskedServer(connection, WHERE);
  }

  get state(): ReplicaState {
    if (this.#state === 'in use' && performance.now() < this.#restsUntil) return 'resting';
    return this.#state;
  }

  /** It is there and a standby; it may be resting. */
  get isStandby(): boolean {
    return this.#state === 'in use';
  }

  /** Up to where it had replayed when it was last looked at. */
  get position(): Position | undefined {
    return this.#position;
  }

  /** Finds out what it is and where; never fails. */
  async look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      const [isStandby, position] = await this.#server.ask().answer;
      if (isStandby === 't' && typeof position === 'string') {
        this.#position = parsePosition(position);
        if (this.#state === 'in use') return;
        if ((await this.pool.answers(ANSWER_MS)) === 'no')
          this.#become('unreachable', new Error('no connection for reads gets an answer'));
        else this.#become('in use');
      } else this.#become('no standby');
    } catch (error) {
      this.#become('unreachable', error);
    } finally {
      this.#isLooking = false;
    }
  }

  /** A read was answered there. */
  served(): void {
    this.#count(0);
  }

  /** A read went to the primary, because this one was behind for as long as a read waits. */
  late(): void {
    this.#count(1);
  }

  /** A batch found out that it is not what it was. */
  isNone({ reason }: Unreplayed): void {
    if (reason === 'no standby') this.#become('no standby');
  }

  /** A batch got no connection, or lost it. Not used until it has been looked at again. */
  lost(error: Error): void {
    this.#become('unreachable', error);
  }

  close(): void {
    this.#server.close();
    this.pool.destroy();
  }

  #count(late: 0 | 1): void {
    const now = performance.now();
    const span = this.#span;
    if (now - span.since >= SPAN_MS) {
      // What was counted while nobody read says nothing.
      const isRecent = now - span.since < 2 * SPAN_MS;
      if (isRecent && span.late > span.reads / 2) this.#rest(now);
      this.#span = { since: now, reads: 0, late: 0 };
    }
    this.#span.reads += 1;
    this.#span.late += late;
  }

  #rest(now: number): void {
    this.#restsUntil = now + REST_MS;
    this.#log.info(
      { replica: this.target },
      'the replica was behind for most reads: the primary answers for 5 s',
    );
  }

  #become(state: Exclude<ReplicaState, 'resting'>, error?: unknown): void {
    if (state === this.#state) return;
    this.#state = state;
    const fields = { replica: this.target };
    if (state === 'in use') {
      this.#log.info(fields, 'reads go to this replica');
      this.pool.warm().catch(() => {});
    } else if (state === 'no standby') {
      this.#log.warn(fields, 'this server is no standby (any more): nothing is read there');
    } else {
      this.#log.warn(
        { ...fields, err: error },
        'the replica cannot be reached: the primary answers its reads',
      );
    }
  }
}
