// Where a read is answered: on a replica if one is as far as the read needs, else on the primary
// (docs/decisions/0083).
//
//   fresh     up to where the primary was after the read had arrived. A replica that is behind is asked again after
//             1, 2, 4 … ms until `wait` is over.
//   bounded   up to where the primary was `max_staleness` ago at most; who has just written reads from the primary.
//
// The condition is sent with the batch, so the server that answers has decided it. What a replica refuses, for whatever
// reason, the primary decides; only when the primary cannot be reached may a read be answered without any condition.
import { setTimeout as sleep } from 'node:timers/promises';
import { Abort, Problem } from '../../problem/problem.ts';
import type { Log } from '../../log/log.ts';
import type { ConnectionSettings } from '../connection.ts';
import { DatabaseUnavailable, isDatabaseError } from '../pg-error.ts';
import type { Cancellable, CallerPool, CallerSettings, RunOptions } from '../pool/caller-pool.ts';
import { turnKey } from '../pool/sharer.ts';
import { RowTooLarge, type WireResult } from '../wire/wire.ts';
import type { WireStatement } from '../wire/statement.ts';
import { OwnWrites } from './own-writes.ts';
import { AskedServer } from './position.ts';
import { PositionTickets } from './position-tickets.ts';
import { PrimaryPositions, type Sample } from './primary-positions.ts';
import type { Replica } from './replica.ts';
import { ANY_POSITION, Unreplayed } from './replay-check.ts';

export type ReplicaRules = {
  readonly reads: 'fresh' | 'bounded';
  /** For `bounded`. */
  readonly maxStalenessMs: number;
  /** For `fresh`: how long a read waits for a replica. */
  readonly waitMs: number;
  /** What becomes of reads while the primary is away. */
  readonly withoutPrimary: 'serve' | 'fail';
};

export type ReplicaReadsOptions = ReplicaRules & {
  readonly primary: CallerPool;
  /** In the order of the address. */
  readonly replicas: readonly Replica[];
  /** Any of them, or the first one that can be used. */
  readonly isShuffled: boolean;
  /** To the primary itself, for its position. */
  readonly position: ConnectionSettings;
  readonly log: Log;
};

/** A READ ONLY batch whose rows are collected, or can be taken back by `onRestart`. */
export type Read = {
  readonly caller: CallerSettings;
  readonly statements: readonly WireStatement[];
  readonly options: RunOptions;
  /** How old the answer may be: milliseconds, or `unknown`. Not called for an answer that is not stale at all. */
  readonly onStaleness: (staleness: string) => void;
};

const PRIMARY_POSITION = 'select pg_current_wal_flush_lsn()';
const LOOK_EVERY_MS = 1_000;
/** For `bounded`. */
const SAMPLE_EVERY_MS = 250;
const SAMPLES_A_BOUND = 4;
const FIRST_PAUSE_MS = 1;

export class ReplicaReads {
  readonly #options: ReplicaReadsOptions;
  readonly #primaryServer: AskedServer;
  readonly #tickets: PositionTickets;
  readonly #positions: PrimaryPositions;
  readonly #ownWrites: OwnWrites;
  readonly #timer: NodeJS.Timeout;

  constructor(options: ReplicaReadsOptions) {
    const { reads, maxStalenessMs } = options;
    this.#options = options;
    this.#primaryServer = new AskedServer(options.position, PRIMARY_POSITION);
    this.#tickets = new PositionTickets(() => this.#primaryServer.ask());
    this.#positions = new PrimaryPositions(maxStalenessMs);
    this.#ownWrites = new OwnWrites(2 * maxStalenessMs);
    const everyMs =
      reads === 'fresh' ? LOOK_EVERY_MS : Math.min(SAMPLE_EVERY_MS, maxStalenessMs / SAMPLES_A_BOUND);
    this.#timer = setInterval(() => void this.look(), everyMs);
    this.#timer.unref();
  }

  get replicas(): readonly Replica[] {
    return this.#options.replicas;
  }

  /** Which replicas are not read from, and why. */
  get trouble(): string | undefined {
    const unused = this.replicas.filter(({ state }) => state !== 'in use');
    if (unused.length === 0) return undefined;
    const reasons = unused.map(({ target, state }) => `${target} (${state})`);
    return `the primary answers reads for ${reasons.join(', ')}`;
  }

  /** For `CallerPoolOptions.onWrite` of the primary. */
  noteWrite(caller: CallerSettings, cancellable: Cancellable | undefined): void {
    if (this.#options.reads === 'bounded') this.#ownWrites.note(turnKey(caller, cancellable));
  }

  run(read: Read): Promise<WireResult[]> {
    if (this.#options.reads === 'bounded') return this.#bounded(read);
    // Whoever holds the secret key compares with what other programs have done.
    return read.caller.role === 'service_role' ? this.#onPrimary(read) : this.#fresh(read);
  }

  /** Looks where everybody is; never fails. */
  async look(): Promise<void> {
    const looks = this.replicas.map((replica) => replica.look());
    if (this.#options.reads === 'bounded') looks.push(this.#samplePrimary());
    await Promise.all(looks);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#primaryServer.close();
    for (const replica of this.replicas) replica.close();
  }

  async #fresh(read: Read): Promise<WireResult[]> {
    if (this.#choose() === undefined) return await this.#onPrimary(read);
    const ticket = await this.#tickets.take().catch(() => undefined);
    if (ticket === undefined) return await this.#onPrimary(read);
    const until = performance.now() + this.#options.waitMs;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs *= 2) {
      const replica = this.#choose();
      if (replica === undefined) break;
      const found = await tryOn(replica, read, ticket);
      if (found !== 'behind') return found === 'no' ? await this.#onPrimary(read) : found;
      if (performance.now() + pauseMs > until) {
        replica.late();
        break;
      }
      await sleep(pauseMs);
    }
    return await this.#onPrimary(read);
  }

  async #bounded(read: Read): Promise<WireResult[]> {
    if (this.#ownWrites.has(turnKey(read.caller, read.options.cancellable)))
      return await this.#onPrimary(read);
    const replica = this.#choose((one) => this.#isInBound(this.#stateOf(one)));
    const known = replica && this.#stateOf(replica);
    if (replica === undefined || known === undefined) return await this.#onPrimary(read);
    const found = await tryOn(replica, read, known.text);
    if (found === 'behind' || found === 'no') return await this.#onPrimary(read);
    read.onStaleness(String(Math.ceil(performance.now() - known.at)));
    return found;
  }

  /** The last position of the primary that this replica is known to have replayed. */
  #stateOf({ position }: Replica): Sample | undefined {
    return position === undefined ? undefined : this.#positions.newestIn(position);
  }

  #isInBound(sample: Sample | undefined): boolean {
    return sample !== undefined && performance.now() - sample.at < this.#options.maxStalenessMs;
  }

  async #onPrimary(read: Read): Promise<WireResult[]> {
    const { primary, withoutPrimary } = this.#options;
    try {
      return await primary.run(read.caller, read.statements, read.options);
    } catch (error) {
      if (!(error instanceof DatabaseUnavailable) || withoutPrimary === 'fail') throw error;
      return await this.#withoutPrimary(read, error);
    }
  }

  /** The primary cannot be reached: from the replica that has got furthest. */
  async #withoutPrimary(read: Read, unavailable: DatabaseUnavailable): Promise<WireResult[]> {
    const standbys = this.replicas.filter(({ isStandby }) => isStandby);
    for (const replica of standbys.toSorted((a, b) => compare(b.position, a.position))) {
      const found = await tryOn(replica, read, ANY_POSITION);
      if (found === 'behind' || found === 'no') continue;
      read.onStaleness('unknown');
      return found;
    }
    throw unavailable;
  }

  #choose(isGood: (replica: Replica) => boolean = () => true): Replica | undefined {
    const good = this.replicas.filter((replica) => replica.state === 'in use' && isGood(replica));
    return good[this.#options.isShuffled ? Math.floor(Math.random() * good.length) : 0];
  }

  async #samplePrimary(): Promise<void> {
    const at = performance.now();
    // While the primary is away, what is known of it grows old.
    const ticket = await this.#tickets.take().catch(() => undefined);
    if (ticket !== undefined) this.#positions.add(ticket, at);
  }
}

/** The results, or why another server is to answer. Throws what no other server would answer better. */
async function tryOn(
  replica: Replica,
  read: Read,
  replayed: string,
): Promise<WireResult[] | 'behind' | 'no'> {
  try {
    const results = await replica.pool.run(read.caller, read.statements, { ...read.options, replayed });
    replica.served();
    return results;
  } catch (error) {
    if (isFinal(error)) throw error;
    read.options.onRestart?.();
    if (error instanceof Unreplayed) replica.isNone(error);
    else if (error instanceof DatabaseUnavailable) replica.lost(error);
    return error instanceof Unreplayed && error.reason === 'behind' ? 'behind' : 'no';
  }
}

/**
 * Not what the replica says of a statement: it may have been stopped for what it replays, and reads less than a primary
 * (unlogged tables). But one that ran into its deadline would do so there too.
 */
function isFinal(error: unknown): boolean {
  // An overfull pool; a fault is about the server.
  if (error instanceof Problem) return error.status !== 500;
  if (error instanceof Abort || error instanceof RowTooLarge) return true;
  return isDatabaseError(error, 'query_canceled') && !/conflict with recovery/.test(error.message);
}

function compare(one = 0n, other = 0n): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
