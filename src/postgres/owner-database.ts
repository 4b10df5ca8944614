// The product's access as `svc_owner`: auth, storage bookkeeping, catalog, migrations. Never on behalf of a caller,
// because row-level security does not apply to the owner.
import pg from 'pg';
import { cutOff, GOODBYE_MS, type ConnectionSettings } from './connection.ts';
import { LinkedSessions } from './link/linked-sessions.ts';
import type { Config as Query } from './link/query-with-settings.ts';
import { FailoverRetry } from './owner/failover-retry.ts';
import {
  ConnectionLost,
  databaseFailure,
  isDatabaseError,
  isOutcomeUnknown,
  NeverSent,
  OutcomeUnknown,
} from './pg-error.ts';
import { toCaller } from './pool/failure/after-failure.ts';
import { join, literal, raw, sql, type Sql } from './sql.ts';
import { statementName } from './statement-name.ts';

export type Row = Record<string, unknown>;

/** Runs SQL: the database itself, or one transaction. */
export interface Queryable {
  /** `name` makes the server keep the plan for this connection. For hot paths whose text is constant for the name. */
  query<R extends Row = Row>(statement: Sql, name?: string): Promise<R[]>;
}

const COMMIT = raw('commit');
const ROLLBACK = raw('rollback');
const PROBE = raw('select 1');
/** DISCARD ALL without what makes the next use fast: prepared statements and plans. */
const RESET_SESSION = raw(`rollback; close all; set session authorization default; reset all; unlisten *;
  select pg_advisory_unlock_all(); discard temp; discard sequences`);

/** Discards the connection of a statement this long past its deadline, because its server has vanished. */
const SILENT_MS = 3_000;
/** A response younger than this counts as a successful health check. */
const FRESH_ANSWER_MS = 2_000;
/** A statement that waits longer than this counts as blocked. */
const LONG_MS = 1_000;
/** How long `trouble` reports a failed lock attempt. */
const RECENT_LOCK_MS = 5_000;
/** Maximum age of a connection, so that changes in DNS and load balancing take effect. */
const MAX_AGE_S = 30 * 60;

export type OwnerSettings = ConnectionSettings & {
  readonly max: number;
  readonly idleTimeoutMs: number;
  /** How long a statement waits while the database is unreachable, in milliseconds. Default: not at all. */
  readonly failoverWaitMs?: number | undefined;
  /** Called after each statement with its duration, without the wait for a connection. */
  readonly ran?: ((ms: number, error?: unknown) => void) | undefined;
};

export class OwnerDatabase implements Queryable {
  readonly max: number;
  readonly #pool: pg.Pool;
  readonly #ran: OwnerSettings['ran'];
  readonly #sessions: LinkedSessions;
  readonly #hold: FailoverRetry | undefined;
  /**
   * Discards a statement and its connection after this. A vanished server cannot report that the deadline has passed.
   * Undefined if statements have no deadline.
   */
  readonly #silentAfterMs: number | undefined;
  readonly #open = new Set<pg.PoolClient>();
  readonly #idle = new Set<pg.PoolClient>();
  /** Start times of running statements, including their wait for a connection. */
  readonly #underWay = new Set<{ readonly since: number }>();
  /** `performance.now()` when a lock could not be had. */
  #lockedAt = Number.NEGATIVE_INFINITY;
  /** `performance.now()` when a statement last ended, well or not. */
  #answeredAt = Number.NEGATIVE_INFINITY;

  constructor(settings: OwnerSettings) {
    const { statementTimeoutMs, failoverWaitMs } = settings;
    this.max = settings.max;
    this.#ran = settings.ran;
    this.#silentAfterMs = statementTimeoutMs ? statementTimeoutMs + SILENT_MS : undefined;
    this.#sessions = new LinkedSessions(settings);
    this.#pool = new pg.Pool({
      ...this.#sessions.poolConfig,
      max: settings.max,
      idleTimeoutMillis: settings.idleTimeoutMs,
      // Not all instances at once.
      maxLifetimeSeconds: Math.round(MAX_AGE_S * (0.9 + 0.2 * Math.random())),
      // An idle pool must not keep a finished process alive.
      allowExitOnIdle: true,
    });
    if (failoverWaitMs !== undefined) {
      this.#hold = new FailoverRetry({
        waitMs: failoverWaitMs,
        reach: async () => (await this.#connect()).release(),
        leaveStandby: () => this.#leaveStandby(),
      });
    }
    // A connection that breaks while idle is replaced at its next use. If that fails, the statement reports it.
    this.#pool.on('error', () => {});
    this.#pool.on('release', (error: unknown, client) => {
      if (!error) this.#idle.add(client);
    });
    this.#pool.on('acquire', (client) => this.#idle.delete(client));
    this.#pool.on('connect', (client) => this.#open.add(client));
    this.#pool.on('remove', (client) => {
      this.#idle.delete(client);
      this.#open.delete(client);
    });
  }

  async query<R extends Row = Row>(statement: Sql, name?: string): Promise<R[]> {
    const query = toQuery(statement, name, this.#silentAfterMs);
    const mayRunTwice = isRead(query.text);
    const ask = (): Promise<pg.QueryResult<R>> => this.#seen(() => this.#run<R>(query));
    return await this.#timed(async () => {
      if (this.#hold) return (await this.#hold.run(mayRunTwice, ask)).rows;
      const asked = ask();
      return (await (mayRunTwice ? asked : asked.catch(unknownOutcome))).rows;
    });
  }

  /** The first row, or undefined. */
  async maybeOne<R extends Row = Row>(statement: Sql): Promise<R | undefined> {
    const [row] = await this.query<R>(statement);
    return row;
  }

  /**
   * Commits when `work` returns and rolls back when it throws. The settings end with the transaction. Waits while the
   * database is unreachable, but does not retry a transaction that has begun, because `work` may have other effects.
   */
  async transaction<T>(
    work: (transaction: Queryable) => Promise<T>,
    settings: LocalSettings = {},
  ): Promise<T> {
    return await this.#timed(async () => {
      const beginIt = (): Promise<pg.PoolClient> => this.#begin(settings);
      return await this.#inBegun(await (this.#hold?.run(true, beginIt) ?? beginIt()), work);
    });
  }

  async #begin(settings: LocalSettings): Promise<pg.PoolClient> {
    const client = await this.#connect();
    client.on('error', ignore);
    try {
      await this.#onClient(client).query(begin(settings, this.#sessions.settingsFor(client)));
      return client;
    } catch (error) {
      client.off('error', ignore);
      client.release(true);
      throw error;
    }
  }

  async #inBegun<T>(client: pg.PoolClient, work: (transaction: Queryable) => Promise<T>): Promise<T> {
    const transaction = this.#onClient(client);
    let broken = false;
    let commits = false;
    try {
      const result = await work(transaction);
      commits = true;
      await transaction.query(COMMIT).catch(unknownOutcome);
      return result;
    } catch (error) {
      // On a silent connection, the rollback would wait for ever too.
      broken = isOutcomeUnknown(error) || error instanceof OutcomeUnknown;
      if (!broken) {
        await transaction.query(ROLLBACK).catch(() => {
          broken = true;
        });
      }
      // A transaction without a sent COMMIT has no effect, however the connection ended.
      throw this.#hold && error instanceof Error && (broken || isDatabaseError(error))
        ? toCaller(error, !commits)
        : error;
    } finally {
      client.off('error', ignore);
      client.release(broken);
    }
  }

  /**
   * Lends one session for work that needs session state: advisory locks, LISTEN, CREATE INDEX CONCURRENTLY. Work that
   * throws closes its connection.
   */
  async session<T>(work: (session: Queryable) => Promise<T>): Promise<T> {
    const client = await this.#connect();
    client.on('error', ignore);
    let isClean = false;
    try {
      this.#sessions.assertOwn(client);
      const session = this.#onClient(client);
      const result = await work(session);
      isClean = await session.query(RESET_SESSION).then(
        () => true,
        () => false,
      );
      return result;
    } finally {
      client.off('error', ignore);
      client.release(!isClean);
    }
  }

  /** The reason why statements wait, if there is one; for operators. */
  get trouble(): string | undefined {
    const now = performance.now();
    if (now - this.#lockedAt < RECENT_LOCK_MS)
      return 'a lock that its statements need is held by another session';
    const [oldest] = this.#underWay;
    if (oldest === undefined || now - oldest.since < LONG_MS) return undefined;
    return `its statements have waited for ${Math.round((now - oldest.since) / 1_000)} s`;
  }

  get size(): { readonly open: number; readonly idle: number; readonly waiting: number } {
    const { totalCount, idleCount, waitingCount } = this.#pool;
    return { open: totalCount, idle: idleCount, waiting: waitingCount };
  }

  /** Closes idle connections whose server has vanished, before a statement waits on one. */
  async checkIdle(withinMs: number): Promise<void> {
    if (performance.now() - this.#answeredAt < FRESH_ANSWER_MS || this.#pool.idleCount === 0) return;
    await this.#seen(() => this.#run(toQuery(PROBE, undefined, withinMs))).catch(() => {});
  }

  /** Waits for running statements, but not for a server that does not respond to Terminate. */
  async close(): Promise<void> {
    const silent = setTimeout(() => {
      for (const client of this.#open) if (this.#idle.has(client)) cutOff(client);
    }, GOODBYE_MS);
    // The timer must not keep the process alive.
    silent.unref();
    await this.#pool.end();
  }

  /** @throws NeverSent, or that all connections are in use. */
  async #connect(): Promise<pg.PoolClient> {
    try {
      return await this.#sessions.connect(this.#pool);
    } catch (error) {
      const isOfServer = isDatabaseError(error)
        ? isDatabaseError(error, 'shutdown', 'insufficient_resources', 'connection_exception')
        : databaseFailure(error)?.kind === 'unreachable';
      throw this.#hold && isOfServer && !(error instanceof NeverSent) ? new NeverSent(error) : error;
    }
  }

  async #leaveStandby(): Promise<boolean> {
    const { rows } = await this.#run<{ standby: boolean }>(
      toQuery(raw('select pg_is_in_recovery() as standby'), undefined, LONG_MS),
    );
    if (rows[0]?.standby !== true) return false;
    for (const client of this.#idle) cutOff(client);
    return true;
  }

  async #timed<T>(work: () => Promise<T>): Promise<T> {
    const transaction = { since: performance.now() };
    this.#underWay.add(transaction);
    try {
      return await work();
    } catch (error) {
      if (isDatabaseError(error, 'lock_not_available')) this.#lockedAt = performance.now();
      throw error;
    } finally {
      this.#underWay.delete(transaction);
    }
  }

  async #run<R extends Row>(query: Query): Promise<pg.QueryResult<R>> {
    const client = await this.#connect();
    client.on('error', ignore);
    let failure: Error | undefined;
    try {
      return await this.#told(() => this.#sessions.run<R>(client, query));
    } catch (error) {
      failure = toError(error);
      throw error;
    } finally {
      client.off('error', ignore);
      // Closes the connection of a failed statement.
      client.release(failure);
    }
  }

  #onClient(client: pg.PoolClient): Queryable {
    return {
      query: async <R extends Row = Row>(statement: Sql, name?: string): Promise<R[]> => {
        const query = this.#sessions.asSent(client, toQuery(statement, name, this.#silentAfterMs));
        const result = await this.#seen(() => this.#told(() => client.query<R>(query)));
        return result.rows;
      },
    };
  }

  async #told<T>(ask: () => Promise<T>): Promise<T> {
    if (!this.#ran) return await ask();
    const startedAt = performance.now();
    try {
      const answer = await ask();
      this.#ran(performance.now() - startedAt);
      return answer;
    } catch (error) {
      this.#ran(performance.now() - startedAt, error);
      throw error;
    }
  }

  async #seen<T>(ask: () => Promise<T>): Promise<T> {
    try {
      const answer = await ask();
      this.#answeredAt = performance.now();
      return answer;
    } catch (error) {
      if (isDatabaseError(error)) this.#answeredAt = performance.now();
      if (!isReadTimeout(error)) throw error;
      // The idle connections lead to the same silent server.
      for (const client of this.#idle) cutOff(client);
      throw new StatementSilent(error);
    }
  }
}

/** Values for `set local`: constants, or SQL for lists of names. */
export type LocalSettings = Readonly<Record<string, string | number | Sql>>;

/**
 * Runs a transaction on a session with other uses: commits when `work` returns, rolls back when it throws. The
 * settings end with the transaction.
 */
export async function inTransaction<T>(
  session: Queryable,
  settings: LocalSettings,
  work: () => Promise<T>,
): Promise<T> {
  return await endedBy(session, COMMIT, settings, work);
}

/** The same, but nothing that `work` does remains. */
export async function inDiscardedTransaction<T>(
  session: Queryable,
  settings: LocalSettings,
  work: () => Promise<T>,
): Promise<T> {
  return await endedBy(session, ROLLBACK, settings, work);
}

async function endedBy<T>(
  session: Queryable,
  end: Sql,
  settings: LocalSettings,
  work: () => Promise<T>,
): Promise<T> {
  try {
    await session.query(begin(settings));
    const result = await work();
    await session.query(end);
    return result;
  } catch (error) {
    // A rollback fails only on a lost connection, which has nothing to roll back. The first error has the cause.
    await session.query(ROLLBACK).catch(() => {});
    throw error;
  }
}

/** Combines all settings in one round trip. `head` precedes the caller's settings. */
function begin(settings: LocalSettings, head?: string): Sql {
  const assignments = Object.entries(settings).map(
    ([name, value]) =>
      sql`set local ${raw(name)} = ${typeof value === 'object' ? value : literal(String(value))}`,
  );
  return join([raw('begin'), ...(head === undefined ? [] : [raw(head)]), ...assignments], '; ');
}

/** The statement got no response, so the outcome of a write is unknown. */
class StatementSilent extends ConnectionLost {
  override name = 'StatementSilent';

  constructor(cause: unknown) {
    super('the database has fallen silent in the middle of a statement', { cause });
  }
}

function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

function unknownOutcome(error: unknown): never {
  throw isOutcomeUnknown(error) ? new OutcomeUnknown(error) : error;
}

/** Whether a repetition has no further effect. */
function isRead(text: string): boolean {
  return /^\s*select\b/i.test(text);
}

/** Recognises the error of `pg` after `query_timeout`, which has no code. */
function isReadTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === 'Query read timeout';
}

/**
 * The running statement reports the loss of its connection. Without a listener, the `error` event would end the
 * process.
 */
function ignore(): void {}

function toQuery(statement: Sql, name: string | undefined, timeoutMs: number | undefined): Query {
  const query: Query = {
    ...statement.compile(),
    ...(timeoutMs === undefined ? {} : { query_timeout: timeoutMs }),
  };
  return name === undefined ? query : { ...query, name: ownName(name, query.text) };
}

const ownNames = new Map<string, { readonly text: string; readonly name: string }>();

/** Derives the name from the text, because two versions of the product may use one name for different statements. */
function ownName(name: string, text: string): string {
  const known = ownNames.get(name);
  if (known?.text === text) return known.name;
  const made = statementName('', text);
  ownNames.set(name, { text, name: made });
  return made;
}
