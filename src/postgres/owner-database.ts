// The product's own access as `svc_owner`: auth, storage bookkeeping, catalog, migrations. Never on behalf of a
// caller: what a caller may see is decided by row-level security, and the owner is above it.
import pg from 'pg';
import { cutOff, GOODBYE_MS, type ConnectionSettings } from './connection.ts';
import { LinkedSessions } from './link/linked-sessions.ts';
import type { Config as Query } from './link/query-with-settings.ts';
import { FailoverHold } from './owner/failover-hold.ts';
import {
  ConnectionLost,
  databaseFailure,
  isDatabaseError,
  mayHaveHappened,
  NeverSent,
  OutcomeUnknown,
} from './pg-error.ts';
import { toCaller } from './pool/failure/after-failure.ts';
import { join, literal, raw, sql, type Sql } from './sql.ts';
import { statementName } from './statement-name.ts';

export type Row = Record<string, unknown>;

/** Something that runs SQL: the database itself, or one transaction of it. */
export interface Queryable {
  /**
   * `name` has the server keep the plan for this connection: for statements of hot paths, whose text is always the
   * same under that name.
   */
  query<R extends Row = Row>(statement: Sql, name?: string): Promise<R[]>;
}

const COMMIT = raw('commit');
const ROLLBACK = raw('rollback');
const PROBE = raw('select 1');

/** A statement this long past its deadline has lost its server: its connection is given up. */
const SILENT_MS = 3_000;
/** So recent an answer proves that the database answers. */
const FRESH_ANSWER_MS = 2_000;
/** A statement that waits this long is held up by something. */
const LONG_MS = 1_000;
/** A lock that could not be had is told of for so long. */
const RECENT_LOCK_MS = 5_000;
/** Names move and servers are balanced anew: nothing is kept for ever. */
const MAX_AGE_S = 30 * 60;

export type OwnerSettings = ConnectionSettings & {
  readonly max: number;
  readonly idleTimeoutMs: number;
  /** How long a statement is held while the database cannot be reached, in milliseconds. Without it: not at all. */
  readonly failoverWaitMs?: number | undefined;
  /** Told of each statement that has ended, without its wait for a connection. */
  readonly ran?: ((ms: number, error?: unknown) => void) | undefined;
};

export class OwnerDatabase implements Queryable {
  readonly max: number;
  readonly #pool: pg.Pool;
  readonly #ran: OwnerSettings['ran'];
  readonly #sessions: LinkedSessions;
  readonly #hold: FailoverHold | undefined;
  /**
   * A statement is given up with its connection after this: a server that vanished cannot report that the statement's
   * deadline has passed. Undefined where statements have no deadline.
   */
  readonly #silentAfterMs: number | undefined;
  readonly #open = new Set<pg.PoolClient>();
  readonly #idle = new Set<pg.PoolClient>();
  /** When each statement under way was begun, its wait for a connection included. */
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
      this.#hold = new FailoverHold({
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
   * Commits when `work` returns, rolls back when it throws. The settings end with the transaction. Held while the
   * database cannot be reached, but once begun it does not begin again: `work` may have done something else besides.
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
      // On a connection that does not answer, the rollback would wait for ever too.
      broken = mayHaveHappened(error) || error instanceof OutcomeUnknown;
      if (!broken) {
        await transaction.query(ROLLBACK).catch(() => {
          broken = true;
        });
      }
      // Of what was not to be committed yet nothing remains, however the connection ended.
      throw this.#hold && error instanceof Error && (broken || isDatabaseError(error))
        ? toCaller(error, !commits)
        : error;
    } finally {
      client.off('error', ignore);
      client.release(broken);
    }
  }

  /** One session for work that needs session state: advisory locks, LISTEN, CREATE INDEX CONCURRENTLY. */
  async session<T>(work: (session: Queryable) => Promise<T>): Promise<T> {
    const client = await this.#connect();
    client.on('error', ignore);
    try {
      this.#sessions.assertOwn(client);
      return await work(this.#onClient(client));
    } finally {
      // Session state must not leak to the next user of a pooled connection.
      client.release(true);
    }
  }

  /** What its statements wait for, if anything: for operators. */
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

  /** Finds idle connections whose server has vanished, and closes them before somebody waits on one. */
  async checkIdle(withinMs: number): Promise<void> {
    if (performance.now() - this.#answeredAt < FRESH_ANSWER_MS || this.#pool.idleCount === 0) return;
    await this.#seen(() => this.#run(toQuery(PROBE, undefined, withinMs))).catch(() => {});
  }

  /** Waits for running statements, but not for a server that does not answer the goodbye. */
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
    const one = { since: performance.now() };
    this.#underWay.add(one);
    try {
      return await work();
    } catch (error) {
      if (isDatabaseError(error, 'lock_not_available')) this.#lockedAt = performance.now();
      throw error;
    } finally {
      this.#underWay.delete(one);
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
      // A connection whose statement failed is closed.
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

/** What `set local` is given: constants, and SQL where PostgreSQL wants a list of names. */
export type LocalSettings = Readonly<Record<string, string | number | Sql>>;

/**
 * A transaction on a session that is used for more: commits when `work` returns, rolls back when it throws. The
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
    // Fails only on a lost connection, where nothing is left to roll back; the first error says why.
    await session.query(ROLLBACK).catch(() => {});
    throw error;
  }
}

/** One round trip for all. `head` comes before what the caller sets. */
function begin(settings: LocalSettings, head?: string): Sql {
  const assignments = Object.entries(settings).map(
    ([name, value]) =>
      sql`set local ${raw(name)} = ${typeof value === 'object' ? value : literal(String(value))}`,
  );
  return join([raw('begin'), ...(head === undefined ? [] : [raw(head)]), ...assignments], '; ');
}

/** The statement got no answer, so whether a write was done is not known. */
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
  throw mayHaveHappened(error) ? new OutcomeUnknown(error) : error;
}

/** May be repeated without doing anything twice. */
function isRead(text: string): boolean {
  return /^\s*select\b/i.test(text);
}

/** What `pg` says when `query_timeout` is over; it has no code. */
function isReadTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === 'Query read timeout';
}

/**
 * A connection that dies while it is lent rejects the running statement, which reports it. Its `error` event would end
 * the process if nobody listened.
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

/** What the text is at the server: two versions of the product may mean different statements by one name. */
function ownName(name: string, text: string): string {
  const known = ownNames.get(name);
  if (known?.text === text) return known.name;
  const made = statementName('', text);
  ownNames.set(name, { text, name: made });
  return made;
}
