// Runs statements as the caller. Role, claims and request settings are sent in the same write and the same implicit
// transaction as the statement itself, so they cannot be omitted and end with it.
import { ConnectionPool, type ConnectionPoolOptions, type DatabaseAnswer } from './connection-pool.ts';
import { setConfig } from '../link/session-parameters.ts';
import { DatabaseUnavailable, isDatabaseError, OutcomeUnknown, writeError } from '../pg-error.ts';
import { beginWithRetry } from './failure/begin-with-retry.ts';
import { toCaller } from './failure/after-failure.ts';
import { noteTime, type Cancellable, type Job } from './job.ts';
import { LatencyEstimate } from './latency-estimate.ts';
import type { PooledConnection } from './pooled-connection.ts';
import type { CallerIdentity } from '../../lib/limits/caller-key.ts';
import { replayCheck, replayError, Unreplayed } from '../replicas/replay-check.ts';
import { type Sql, type SqlValue } from '../sql.ts';
import { statementName } from '../statement-name.ts';
import type { WireResult } from '../wire/wire.ts';
import type { WireValue } from '../wire/frames.ts';
import type { WireStatement } from '../wire/statement.ts';

export type { Cancellable } from './job.ts';

export const DATABASE_ROLES = ['anon', 'authenticated', 'service_role'] as const;
export type DatabaseRole = (typeof DATABASE_ROLES)[number];

/** Request data that a transaction receives through `set_config(name, value, true)`. */
export type CallerSettings = {
  readonly role: DatabaseRole;
  /** JSON text of the verified claims, `role` included. */
  readonly claims: string;
  /** The signed-in user, who shares connections with other callers. */
  readonly user?: CallerIdentity['user'];
  /** Further settings, for example `['search_path', '"public"']`; names are written in code, never by callers. */
  readonly extra?: ReadonlyArray<readonly [name: string, value: string]> | undefined;
};

export type RunOptions = {
  /** READ ONLY: a write fails with 25006. When the pool is busy the batch may run twice, which is not observable. */
  readonly readOnly?: boolean | undefined;
  /**
   * The result is the same for identical calls at one time (statements, values, role, claims, settings): calls that
   * wait share one run. Requires `readOnly`.
   */
  readonly repeatable?: boolean | undefined;
  /**
   * Called before the statements are sent again: discard the rows passed to `onRow`. Without it, those rows are
   * final.
   */
  readonly onRestart?: (() => void) | undefined;
  /**
   * A position: only a standby that has replayed it runs the batch; elsewhere it fails with `Unreplayed`. Requires
   * `readOnly`.
   */
  readonly replayed?: string | undefined;
  /** Executes, checks deferred constraints, then rolls back. */
  readonly rollback?: boolean | undefined;
  /** Statements at the start of the transaction, with the few rights of `authenticator`. */
  readonly before?: readonly WireStatement[] | undefined;
  readonly cancellable?: Cancellable | undefined;
};

const WRITE_SETTINGS: readonly string[] = ['role', 'request.jwt.claims'];
const READ_ONLY = 'transaction_read_only';

const BEGIN: WireStatement = named('begin');
const ROLLBACK: WireStatement = named('rollback');
const CHECK_CONSTRAINTS: WireStatement = named('set constraints all immediate');

function named(text: string): WireStatement {
  return { text, values: [], name: statementName('', text) };
}

/** A statement of a caller that took long. */
export type SlowRun = {
  readonly role: DatabaseRole;
  readonly searchPath: string | undefined;
  /** The statement text without values. */
  readonly text: string;
  /** Milliseconds from when the server could start until its response arrived. */
  readonly ms: number;
  /** Number of rows returned or changed; undefined if the statement failed. */
  readonly rows: number | undefined;
  readonly sqlstate: string | undefined;
  readonly requestId: string | undefined;
  readonly traceId: string | undefined;
};

/** A statement of a caller that has ended. */
export type CountedRun = Pick<SlowRun, 'role' | 'text' | 'ms'> & {
  /** Name of the prepared statement, which identifies role and text. */
  readonly name: string;
  readonly rows: number;
};

export type SlowWatch = { readonly ms: number; readonly seen: (run: SlowRun) => void };

export type CallerPoolOptions = Omit<ConnectionPoolOptions, 'slow' | 'ran'> & {
  /** Called after each batch with its durations. Interactive transactions are not timed. */
  readonly ran?: ((kind: 'read' | 'write', waitedMs: number, ms: number, error?: Error) => void) | undefined;
  /** Called after each batch with its statistics. Interactive transactions are not timed. */
  readonly count?: ((run: CountedRun) => void) | undefined;
  /**
   * Called after each batch whose statements took at least this many milliseconds. Interactive transactions are not
   * timed.
   */
  readonly slow?: SlowWatch | undefined;
  /** Called after each write that may have taken effect, whatever its outcome. */
  readonly onWrite?: ((caller: CallerSettings, cancellable: Cancellable | undefined) => void) | undefined;
};

export class CallerPool {
  /** True if there are several hosts, so that a standby can replace an unavailable primary. */
  readonly hasStandIns: boolean;
  readonly #connections: ConnectionPool;
  readonly #onWrite: CallerPoolOptions['onWrite'];
  readonly #names = new StatementNames();
  readonly #writeSettings = this.#names.settings(WRITE_SETTINGS);
  readonly #readSettings = this.#names.settings([...WRITE_SETTINGS, READ_ONLY]);

  constructor({ onWrite, slow, ran, count, ...options }: CallerPoolOptions) {
    this.#onWrite = onWrite;
    this.hasStandIns = options.address.targets.length > 1;
    this.#connections = new ConnectionPool({
      ...options,
      ran:
        (ran ?? count) &&
        ((job, waitedMs, ms, error, results) => {
          ran?.(job.isRead ? 'read' : 'write', waitedMs, ms, error);
          const run = count && countedRun(job, ms, error, results);
          if (run) count(run);
        }),
      slow: slow && {
        ms: slow.ms,
        seen: (job, ms, error, results) => {
          const run = slowRun(job, ms, error, results);
          if (run) slow.seen(run);
        },
      },
    });
  }

  /** Runs the statements as the caller, in one transaction and one round trip. */
  run(
    caller: CallerSettings,
    statements: readonly WireStatement[],
    {
      readOnly = false,
      repeatable = false,
      rollback = false,
      before = [],
      replayed,
      onRestart,
      cancellable,
    }: RunOptions = {},
  ): Promise<WireResult[]> {
    const batch: WireStatement[] = rollback ? [BEGIN, ...before] : [...before];
    batch.push(this.#settings(caller, readOnly, replayed));
    let latency: LatencyEstimate | undefined;
    let collects = true;
    for (const { text, values, onRow, maxRowBytes, admitRow } of statements) {
      const known = this.#names.of(text);
      // Delivered rows cannot be revoked, so a failure because of an unknown name must be impossible after them.
      const name = collects ? known[caller.role] : undefined;
      batch.push({ text, values, name, onRow, maxRowBytes, admitRow });
      latency ??= known.latency;
      if (onRow) collects = false;
    }
    // Deferred violations must be reported although everything is rolled back.
    if (rollback) batch.push(CHECK_CONSTRAINTS, ROLLBACK);
    const isPipelinable = readOnly && collects && !rollback;
    return new Promise((resolve, reject) => {
      this.#connections.run({
        statements: batch,
        isRead: readOnly,
        isPipelinable,
        isRepeatable: isPipelinable && repeatable,
        latency: latency ?? new LatencyEstimate(),
        onRestart: onRestart ?? (collects ? undefined : null),
        cancellable,
        sharer: caller,
        settle: (error, results) => {
          if (!readOnly) this.#onWrite?.(caller, cancellable);
          if (error) reject(rollback ? undone(error) : readOnly ? error : writeError(error));
          else resolve(rollback ? results.slice(2 + before.length, -2) : results.slice(1 + before.length));
        },
      });
    });
  }

  /** Throws if the caller's statement would have to wait and the queue is full. Called before the body is read. */
  assertRoom(caller: CallerSettings, cancellable?: Cancellable): void {
    const refusal = this.#connections.refusal(caller, cancellable);
    if (refusal) throw refusal;
  }

  /**
   * Runs an interactive transaction as the caller, for work with several round trips. Commits when `work` returns,
   * rolls back when it throws or when `rollback` is set.
   */
  async transaction<T>(
    caller: CallerSettings,
    work: (transaction: CallerTransaction) => Promise<T>,
    options: Pick<RunOptions, 'readOnly' | 'rollback' | 'cancellable'> = {},
  ): Promise<T> {
    const { cancellable } = options;
    // Sent without names, because work that has begun cannot move to another connection.
    const beginning = unnamed([BEGIN, this.#settings(caller, options.readOnly ?? false)]);
    const connection = await beginWithRetry(this.#connections, beginning, cancellable, caller);
    const begunAt = performance.now();
    try {
      const result = await work({
        query: async (statement) => {
          const [rows] = await connection.wire.run([{ ...toWire(statement), describe: true }]);
          return rows ? toRows(rows) : [];
        },
      });
      if (options.rollback) await connection.wire.run(unnamed([CHECK_CONSTRAINTS, ROLLBACK]));
      else await commit(connection);
      return result;
    } catch (error) {
      // Before the commit was sent, a lost connection means a rollback.
      throw error instanceof Error ? toCaller(error, true) : error;
    } finally {
      if (cancellable) cancellable.cancel = undefined;
      noteTime(cancellable, caller, performance.now() - begunAt);
      if (!options.readOnly) this.#onWrite?.(caller, cancellable);
      this.#connections.release(connection);
    }
  }

  /** Opens the minimum of idle connections ahead of the first requests. */
  warm(): Promise<void> {
    return this.#connections.warm();
  }

  /** True if reads may run on a standby, which may lack acknowledged writes. */
  get readsFromStandIn(): boolean {
    return this.#connections.readsFromStandIn;
  }

  answers(withinMs: number): Promise<DatabaseAnswer> {
    return this.#connections.answers(withinMs);
  }

  get size(): { open: number; idle: number; waiting: number } {
    return this.#connections.size;
  }

  /** Rejects new work and closes each connection as soon as it is idle. */
  close(): Promise<void> {
    return this.#connections.close();
  }

  /** Closes at once: running statements are cut off with their connections. */
  destroy(): void {
    this.#connections.destroy();
  }

  #settings({ role, claims, extra }: CallerSettings, readOnly: boolean, replayed?: string): WireStatement {
    const values: string[] = readOnly ? [role, claims, 'on'] : [role, claims];
    if (replayed === undefined && (extra === undefined || extra.length === 0)) {
      const { text, name, onRow, isSettings } = readOnly ? this.#readSettings : this.#writeSettings;
      return { text, values, name, onRow, isSettings };
    }
    const names = readOnly ? [...WRITE_SETTINGS, READ_ONLY] : [...WRITE_SETTINGS];
    for (const [name, value] of extra ?? []) {
      names.push(name);
      values.push(value);
    }
    if (replayed !== undefined) values.push(replayed);
    return { ...this.#names.settings(names, replayed !== undefined), values };
  }
}

/** Returns the position of the caller's first statement in the batch. */
function ownStatementAt({ statements }: Job): number {
  return statements.findIndex(({ isSettings }) => isSettings === true) + 1;
}

function rowCount(result: WireResult | undefined): number | undefined {
  const count = /(\d+)$/.exec(result?.tag ?? '')?.[1];
  return count === undefined ? undefined : Number(count);
}

function countedRun(
  job: Job,
  ms: number,
  error: Error | undefined,
  results: readonly WireResult[],
): CountedRun | undefined {
  const at = ownStatementAt(job);
  const statement = job.statements[at];
  if (job.cancellable?.isUncounted === true) return undefined;
  // The replica rejected the batch before it began, so another server runs it.
  if (at === 0 || !statement || !isCaller(job.sharer) || error instanceof Unreplayed) return undefined;
  const { role } = job.sharer;
  const { text, name = statementName(role, text) } = statement;
  return { name, role, text, ms, rows: error === undefined ? (rowCount(results[at]) ?? 0) : 0 };
}

function slowRun(
  job: Job,
  ms: number,
  error: Error | undefined,
  results: readonly WireResult[],
): SlowRun | undefined {
  const { statements, sharer, cancellable } = job;
  const at = ownStatementAt(job);
  const statement = statements[at];
  if (at === 0 || !statement || !isCaller(sharer)) return undefined;
  return {
    role: sharer.role,
    searchPath: sharer.extra?.find(([name]) => name === 'search_path')?.[1],
    text: statement.text,
    ms,
    rows: error === undefined ? rowCount(results[at]) : undefined,
    sqlstate: isDatabaseError(error) ? error.code : undefined,
    requestId: cancellable?.id,
    traceId: cancellable?.traceId,
  };
}

function isCaller(sharer: CallerIdentity | undefined): sharer is CallerSettings {
  return sharer !== undefined && 'claims' in sharer;
}

export type CallerTransaction = {
  /** Returns rows as PostgreSQL's text output; null stays null. */
  query(statement: Sql): Promise<Array<Record<string, string | null>>>;
};

/**
 * Names per role. A cached plan under row-level security belongs to one role, and a shared name would be planned
 * again at each switch.
 */
type KnownStatement = Readonly<Record<DatabaseRole, string>> & { readonly latency: LatencyEstimate };

/** Names of statement texts; bounded, because texts depend on request shapes. */
class StatementNames {
  static readonly MAX = 5_000;
  readonly #byText = new Map<string, KnownStatement>();
  readonly #settings = new Map<string, WireStatement>();

  of(text: string): KnownStatement {
    const known = this.#byText.get(text);
    if (known !== undefined) return known;
    if (this.#byText.size >= StatementNames.MAX) this.#byText.clear();
    const statement = {
      anon: statementName('anon', text),
      authenticated: statementName('authenticated', text),
      service_role: statementName('service_role', text),
      latency: new LatencyEstimate(),
    };
    this.#byText.set(text, statement);
    return statement;
  }

  /** `isChecked`: the last parameter is a position that the server must have replayed. */
  settings(names: readonly string[], isChecked = false): WireStatement {
    const key = `${names.join()}${isChecked ? ' replayed' : ''}`;
    const known = this.#settings.get(key);
    if (known) return known;
    const columns = names.map((name, at) => setConfig(name, `$${at + 1}`));
    if (isChecked) columns.push(replayCheck(`$${names.length + 1}`));
    const text = `select ${columns.join(', ')}`;
    const statement: WireStatement = {
      text,
      name: statementName('', text),
      values: [],
      // set_config returns its argument, which is ignored.
      onRow: () => {},
      isSettings: true,
      asError: isChecked ? replayError : undefined,
    };
    this.#settings.set(key, statement);
    return statement;
  }
}

const COMMIT: WireStatement = { text: 'commit', values: [], commits: true };

async function commit({ wire }: PooledConnection): Promise<void> {
  try {
    await wire.run([COMMIT]);
  } catch (error) {
    throw error instanceof Error ? toCaller(error, false) : error;
  }
}

/** Converts an unknown outcome of work that was to be rolled back: it has no effect in any case. */
function undone(error: Error): Error {
  return error instanceof OutcomeUnknown ? new DatabaseUnavailable(error.cause) : error;
}

function unnamed(statements: readonly WireStatement[]): WireStatement[] {
  return statements.map((statement) => ({ ...statement, name: undefined }));
}

export function toWire(statement: Sql): WireStatement {
  const { text, values } = statement.compile();
  return { text, values: values.map(toText) };
}

/** The text form PostgreSQL reads for each kind of value. */
function toText(value: SqlValue): WireValue {
  if (value === null || typeof value === 'string') return value;
  if (value instanceof Date) return value.toISOString();
  if (Buffer.isBuffer(value)) return `\\x${value.toString('hex')}`;
  if (Array.isArray(value)) return toArrayText(value);
  return String(value);
}

function toArrayText(values: readonly unknown[]): string {
  const items = values.map((value) => {
    if (value === null || value === undefined) return 'NULL';
    return `"${toItemText(value).replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
  });
  return `{${items.join(',')}}`;
}

function toItemText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function toRows(result: WireResult): Array<Record<string, string | null>> {
  return result.rows.map((row) => {
    const record: Record<string, string | null> = {};
    result.columns.forEach((column, index) => {
      record[column] = row[index]?.toString('utf8') ?? null;
    });
    return record;
  });
}
