// Sends a read to a replica that has replayed far enough, else to the primary
// (docs/decisions/0083).
//
//   fresh     up to where the primary was after the read had arrived. A replica that is behind is asked again after
//             1, 2, 4 … ms until `wait` is over.
//   bounded   up to where the primary was `max_staleness` ago at most; recent writers read from the primary.
//
// The condition is sent with the batch, so the responding server evaluates it. If a replica fails for any
// reason, the primary runs the read. Only while the primary is unreachable can a read run without the condition.
import { setTimeout as sleep } from 'node:timers/promises';
import { Abort, Problem } from '../../problem/problem.ts';
import type { Log } from '../../log/log.ts';
import type { ConnectionSettings } from '../connection.ts';
import { DatabaseUnavailable, isDatabaseError } from '../pg-error.ts';
import type { Cancellable, CallerPool, CallerSettings, RunOptions } from '../pool/caller-pool.ts';
import { Backoff } from '../../lib/limits/backoff.ts';
import { callerKey } from '../../lib/limits/caller-key.ts';
import { RowTooLarge, type WireResult } from '../wire/wire.ts';
import type { WireStatement } from '../wire/statement.ts';
import { RecentWriters } from './recent-writers.ts';
import { AskedServer } from './position.ts';
import { PositionTickets } from './position-tickets.ts';
import { PrimaryPositions, type Sample } from './primary-positions.ts';
import type { Replica } from './replica.ts';
import { ANY_POSITION, Unreplayed } from './replay-check.ts';

export type ReplicaRules = {
  readonly reads: 'fresh' | 'bounded';
  /** Maximum staleness of `bounded` reads. */
  readonly maxStalenessMs: number;
  /** How long a `fresh` read waits for a replica. */
  readonly waitMs: number;
  /** Behaviour of reads while the primary is away. */
  readonly withoutPrimary: 'serve' | 'fail';
};

export type ReplicaReadsOptions = ReplicaRules & {
  readonly primary: CallerPool;
  /** Replicas in the order of the address. */
  readonly replicas: readonly Replica[];
  /** Whether reads choose a random usable replica instead of the first one. */
  readonly isShuffled: boolean;
  /** Connection to the primary, for its position. */
  readonly position: ConnectionSettings;
  readonly log: Log;
};

/** A READ ONLY batch whose rows are collected, or can be discarded by `onRestart`. */
export type Read = {
  readonly caller: CallerSettings;
  readonly statements: readonly WireStatement[];
  readonly options: RunOptions;
  /** Receives the maximum staleness of the result: milliseconds, or `unknown`. Not called for a current result. */
  readonly onStaleness: (staleness: string) => void;
};

const PRIMARY_POSITION = 'select pg_current_wal_flush_lsn()';
const CHECK_INTERVAL_MS = 1_000;
/** Sample interval for `bounded`. */
const SAMPLE_EVERY_MS = 250;
const SAMPLES_A_BOUND = 4;
const FIRST_PAUSE_MS = 1;

export class ReplicaReads {
  readonly #options: ReplicaReadsOptions;
  readonly #primaryServer: AskedServer;
  readonly #tickets: PositionTickets;
  readonly #positions: PrimaryPositions;
  readonly #recentWriters: RecentWriters;
  readonly #timer: NodeJS.Timeout;

  constructor(options: ReplicaReadsOptions) {
    const { reads, maxStalenessMs } = options;
    this.#options = options;
    this.#primaryServer = new AskedServer(options.position, PRIMARY_POSITION);
    this.#tickets = new PositionTickets(() => this.#primaryServer.ask());
    this.#positions = new PrimaryPositions(maxStalenessMs);
    this.#recentWriters = new RecentWriters(2 * maxStalenessMs);
    const everyMs =
      reads === 'fresh' ? CHECK_INTERVAL_MS : Math.min(SAMPLE_EVERY_MS, maxStalenessMs / SAMPLES_A_BOUND);
    this.#timer = setInterval(() => void this.checkPositions(), everyMs);
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

  /** Handles `CallerPoolOptions.onWrite` of the primary. */
  noteWrite(caller: CallerSettings, cancellable: Cancellable | undefined): void {
    if (this.#options.reads === 'bounded') this.#recentWriters.note(callerKey(caller, cancellable?.address));
  }

  run(read: Read): Promise<WireResult[]> {
    if (this.#options.reads === 'bounded') return this.#bounded(read);
    // Clients with the secret key compare the result with writes of other programs, so they read the primary.
    return read.caller.role === 'service_role' ? this.#onPrimary(read) : this.#fresh(read);
  }

  /** Checks the positions of all servers; never fails. */
  async checkPositions(): Promise<void> {
    const looks = this.replicas.map((replica) => replica.check());
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
    const ticket = await this.#tickets.request().catch(() => undefined);
    if (ticket === undefined) return await this.#onPrimary(read);
    const until = performance.now() + this.#options.waitMs;
    const pauses = new Backoff({ minMs: FIRST_PAUSE_MS, maxMs: this.#options.waitMs });
    for (;;) {
      const replica = this.#choose();
      if (replica === undefined) break;
      const found = await tryOn(replica, read, ticket);
      if (found !== 'behind') return found === 'no' ? await this.#onPrimary(read) : found;
      const pauseMs = pauses.next();
      if (performance.now() + pauseMs > until) {
        replica.late();
        break;
      }
      await sleep(pauseMs);
    }
    return await this.#onPrimary(read);
  }

  async #bounded(read: Read): Promise<WireResult[]> {
    if (this.#recentWriters.has(callerKey(read.caller, read.options.cancellable?.address)))
      return await this.#onPrimary(read);
    const replica = this.#choose((candidate) => this.#isInBound(this.#newestSample(candidate)));
    const known = replica && this.#newestSample(replica);
    if (replica === undefined || known === undefined) return await this.#onPrimary(read);
    const found = await tryOn(replica, read, known.text);
    if (found === 'behind' || found === 'no') return await this.#onPrimary(read);
    read.onStaleness(String(Math.ceil(performance.now() - known.at)));
    return found;
  }

  /** Returns the newest position of the primary that this replica has replayed. */
  #newestSample({ position }: Replica): Sample | undefined {
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
    // While the primary is away, the samples become older.
    const ticket = await this.#tickets.request().catch(() => undefined);
    if (ticket !== undefined) this.#positions.add(ticket, at);
  }
}

/**
 * Runs the read on the replica. Returns the results, or the reason why another server should run it. Throws errors
 * that another server would return too.
 */
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
 * Whether another server would return the same error. Errors of the statement are not final: a replica can cancel it
 * because of replay, and cannot read unlogged tables. A statement that exceeded its deadline would do so on the
 * primary too.
 */
function isFinal(error: unknown): boolean {
  // An overfull pool; a fault is about the server.
  if (error instanceof Problem) return error.status !== 500;
  if (error instanceof Abort || error instanceof RowTooLarge) return true;
  return isDatabaseError(error, 'query_canceled') && !/conflict with recovery/.test(error.message);
}

function compare(left = 0n, right = 0n): number {
  return left < right ? -1 : left > right ? 1 : 0;
}
