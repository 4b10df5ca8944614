// A replica: its connections, and whether it can serve reads.
import type { Log } from '../../log/log.ts';
import type { ConnectionSettings } from '../connection.ts';
import type { CallerPool } from '../pool/caller-pool.ts';
import { AskedServer, parsePosition, type Position } from './position.ts';
import type { Unreplayed } from './replay-check.ts';

export type ReplicaSettings = {
  /** `host:port`, for messages. */
  readonly target: string;
  readonly pool: CallerPool;
  /** Connection for the position checks. */
  readonly connection: ConnectionSettings;
  readonly log: Log;
};

/** `in use`, or the reason why the replica gets no reads. */
export type ReplicaState = 'in use' | 'unknown' | 'no standby' | 'unreachable' | 'resting';

const WHERE = 'select pg_is_in_recovery(), pg_last_wal_replay_lsn()';
/** Time span in which reads count as served or late. */
const SPAN_MS = 5_000;
const REPLICA_COOLDOWN_MS = 5_000;
/** Timeout of the test connection before the first read. */
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

  /** Whether the server is a reachable standby; it may be resting. */
  get isStandby(): boolean {
    return this.#state === 'in use';
  }

  /** The position replayed at the last check. */
  get position(): Position | undefined {
    return this.#position;
  }

  /** Checks the role and the position of the server; never fails. */
  async check(): Promise<void> {
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

  /** Counts a read that the replica served. */
  served(): void {
    this.#count(0);
  }

  /** Counts a read that went to the primary, because the replica stayed behind for the maximum wait. */
  late(): void {
    this.#count(1);
  }

  /** Handles a batch that found a server other than a standby. */
  isNone({ reason }: Unreplayed): void {
    if (reason === 'no standby') this.#become('no standby');
  }

  /** Handles a batch that got no connection or lost it. The replica is not used until the next check. */
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
      // A span without recent reads is not significant.
      const isRecent = now - span.since < 2 * SPAN_MS;
      if (isRecent && span.late > span.reads / 2) this.#suspend(now);
      this.#span = { since: now, reads: 0, late: 0 };
    }
    this.#span.reads += 1;
    this.#span.late += late;
  }

  #suspend(now: number): void {
    this.#restsUntil = now + REPLICA_COOLDOWN_MS;
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
      this.#log.warn(fields, 'this server is not a standby (any more): it gets no reads');
    } else {
      this.#log.warn(
        { ...fields, err: error },
        'the replica cannot be reached: the primary answers its reads',
      );
    }
  }
}
