// Running statements as the caller: role, claims and request settings are set in the same write and the same
// implicit transaction as the statement itself, so they can neither be forgotten nor outlive it.
import { Problem } from '../problem/problem.ts';
import { openWire, type ConnectionSettings, type OpenWire } from './connection.ts';
import { type Sql, type SqlValue } from './sql.ts';
import type { WireResult, WireStatement, WireValue } from './wire.ts';

export const DATABASE_ROLES = ['anon', 'authenticated', 'service_role'] as const;
export type DatabaseRole = (typeof DATABASE_ROLES)[number];

/** What a transaction is told about the request, all with `set_config(name, value, true)`. */
export type CallerSettings = {
  readonly role: DatabaseRole;
  /** JSON text of the verified claims, `role` included. */
  readonly claims: string;
  /** Further settings, for example `['search_path', '"public"']`; names are written in code, never by callers. */
  readonly extra?: ReadonlyArray<readonly [name: string, value: string]> | undefined;
};

/** Where the running statement leaves its cancel, for whoever watches the client's socket and the deadline. */
export type Cancellable = { cancel: (() => void) | undefined };

export type RunOptions = {
  /** READ ONLY: a write in it ends in 25006. */
  readonly readOnly?: boolean | undefined;
  /** Execute, check deferred constraints, then undo everything. */
  readonly rollback?: boolean | undefined;
  readonly cancellable?: Cancellable | undefined;
};

export type CallerPoolOptions = ConnectionSettings & {
  /** Most connections open at once. */
  readonly max: number;
  /** Connections kept open when idle. */
  readonly minIdle: number;
  readonly idleTimeoutMs: number;
  /** How long a request may wait for a free connection, in milliseconds. */
  readonly acquireTimeoutMs?: number | undefined;
  readonly onNotice?: ((message: string) => void) | undefined;
};

type Waiting = {
  /** `performance.now()` at which it is given up. */
  readonly until: number;
  /** Called from inside the pool: starts what waited, in the same turn in which the connection came free. */
  grant(connection: Pooled): void;
  refuse(error: Error): void;
};
type Pooled = OpenWire & { idleSince: number };

/** Part of a prepared statement's name; one for each role. */
const ROLE_MARK: Readonly<Record<DatabaseRole, string>> = {
  anon: 'n',
  authenticated: 'u',
  service_role: 's',
};

const WRITE_SETTINGS: readonly string[] = ['role', 'request.jwt.claims'];
const READ_ONLY = 'transaction_read_only';

const BEGIN: WireStatement = { text: 'begin', values: [], name: 'begin' };
const ROLLBACK: WireStatement = { text: 'rollback', values: [], name: 'rollback' };
const CHECK_CONSTRAINTS: WireStatement = {
  text: 'set constraints all immediate',
  values: [],
  name: 'check_constraints',
};

export const poolExhausted = (): Problem =>
  new Problem('pool_exhausted', 504, 'Timed out acquiring connection from connection pool.', {
    hint: 'All database connections were busy. Raise database.pool.max or look for slow statements.',
  });

export class CallerPool {
  readonly #options: CallerPoolOptions;
  readonly #names = new StatementNames();
  readonly #idle: Pooled[] = [];
  readonly #waiting: Waiting[] = [];
  readonly #all = new Set<Pooled>();
  #opening = 0;
  #closed = false;
  readonly #reaper: NodeJS.Timeout;
  #waitingTimer: NodeJS.Timeout | undefined;
  readonly #writeSettings = this.#names.settings(WRITE_SETTINGS);
  readonly #readSettings = this.#names.settings([...WRITE_SETTINGS, READ_ONLY]);

  constructor(options: CallerPoolOptions) {
    this.#options = options;
    this.#reaper = setInterval(() => this.#reap(), Math.min(options.idleTimeoutMs, 30_000));
    this.#reaper.unref();
  }

  /** Runs the statements as the caller, in one transaction and one round trip. */
  run(
    caller: CallerSettings,
    statements: readonly WireStatement[],
    options: RunOptions = {},
  ): Promise<WireResult[]> {
    return new Promise((resolve, reject) => {
      this.#acquire((error, connection) => {
        if (connection) this.#runOn(connection, caller, statements, options, resolve, reject);
        else reject(error);
      });
    });
  }

  /** Callbacks and no promise of its own: each turn of the microtask queue shows at this rate of requests. */
  #runOn(
    connection: Pooled,
    caller: CallerSettings,
    statements: readonly WireStatement[],
    { readOnly = false, rollback = false, cancellable }: RunOptions,
    resolve: (results: WireResult[]) => void,
    reject: (error: Error) => void,
  ): void {
    const batch = rollback ? [BEGIN] : [];
    batch.push(this.#settings(caller, readOnly));
    for (const statement of statements) batch.push(this.#named(statement, caller.role));
    // Deferred violations must surface although nothing is kept.
    if (rollback) batch.push(CHECK_CONSTRAINTS, ROLLBACK);
    if (cancellable) cancellable.cancel = () => connection.cancel();
    try {
      connection.wire.send(batch, (error, results) => {
        if (cancellable) cancellable.cancel = undefined;
        this.#release(connection);
        if (error) reject(error);
        else resolve(rollback ? results.slice(2, -2) : results.slice(1));
      });
    } catch (error) {
      // A value that cannot be written: half a batch must not be followed by another.
      if (cancellable) cancellable.cancel = undefined;
      connection.wire.destroy();
      this.#release(connection);
      reject(error instanceof Error ? error : new Error(String(error)));
    }
  }

  /**
   * An interactive transaction as the caller, for what one round trip cannot decide.
   * Commits when `work` returns, rolls back when it throws or when `rollback` is asked for.
   */
  async transaction<T>(
    caller: CallerSettings,
    work: (transaction: CallerTransaction) => Promise<T>,
    options: RunOptions = {},
  ): Promise<T> {
    const connection = await this.#acquired();
    const { cancellable } = options;
    if (cancellable) cancellable.cancel = () => connection.cancel();
    try {
      await connection.wire.run([BEGIN, this.#settings(caller, options.readOnly ?? false)]);
      const result = await work({
        query: async (statement) => {
          const [rows] = await connection.wire.run([{ ...toWire(statement), describe: true }]);
          return rows ? toRows(rows) : [];
        },
      });
      await connection.wire.run(
        options.rollback ? [CHECK_CONSTRAINTS, ROLLBACK] : [{ text: 'commit', values: [] }],
      );
      return result;
    } finally {
      if (cancellable) cancellable.cancel = undefined;
      this.#release(connection);
    }
  }

  /** Opens the minimum of idle connections ahead of the first requests. */
  async warm(): Promise<void> {
    const missing = Math.max(0, Math.min(this.#options.minIdle, this.#options.max) - this.#all.size);
    const connections = await Promise.all(Array.from({ length: missing }, () => this.#open()));
    for (const connection of connections) this.#release(connection);
  }

  get size(): { open: number; idle: number; waiting: number } {
    return { open: this.#all.size, idle: this.#idle.length, waiting: this.#waiting.length };
  }

  /** Refuses new work and closes each connection as soon as it is idle. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#reaper);
    this.#refuseWaiting();
    for (const connection of this.#idle.splice(0)) this.#discard(connection);
    while (this.#all.size > 0 || this.#opening > 0) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  /** Gives up waiting: running statements are cut off with their connections. */
  destroy(): void {
    this.#closed = true;
    clearInterval(this.#reaper);
    this.#refuseWaiting();
    for (const connection of this.#all) this.#discard(connection);
  }

  #settings(caller: CallerSettings, readOnly: boolean): WireStatement {
    const { role, claims, extra } = caller;
    if (extra === undefined || extra.length === 0) {
      return readOnly
        ? { ...this.#readSettings, values: [role, claims, 'on'] }
        : { ...this.#writeSettings, values: [role, claims] };
    }
    const names = readOnly ? [...WRITE_SETTINGS, READ_ONLY] : [...WRITE_SETTINGS];
    const values: string[] = readOnly ? [role, claims, 'on'] : [role, claims];
    for (const [name, value] of extra) {
      names.push(name);
      values.push(value);
    }
    return { ...this.#names.settings(names), values };
  }

  #named(statement: WireStatement, role: DatabaseRole): WireStatement {
    // A cached plan under row security belongs to one role: shared names would be replanned at each switch.
    return { ...statement, name: ROLE_MARK[role] + (statement.name ?? this.#names.of(statement.text)) };
  }

  #acquired(): Promise<Pooled> {
    return new Promise((resolve, reject) => {
      this.#acquire((error, connection) => (connection ? resolve(connection) : reject(error)));
    });
  }

  /** Calls back at once when a connection is idle. */
  #acquire(then: (error: unknown, connection: Pooled | undefined) => void): void {
    for (;;) {
      const connection = this.#idle.pop();
      if (!connection) break;
      if (connection.wire.usable) return then(undefined, connection);
      this.#discard(connection);
    }
    if (this.#closed) return then(new Error('the pool is closed'), undefined);
    if (this.#all.size + this.#opening < this.#options.max) {
      this.#open().then(
        (connection) => then(undefined, connection),
        (error: unknown) => then(error, undefined),
      );
      return;
    }
    this.#waiting.push({
      until: performance.now() + (this.#options.acquireTimeoutMs ?? 10_000),
      grant: (connection) => then(undefined, connection),
      refuse: (error) => then(error, undefined),
    });
    this.#watchWaiting();
  }

  #refuseWaiting(): void {
    clearTimeout(this.#waitingTimer);
    for (const waiting of this.#waiting.splice(0)) waiting.refuse(new Error('the pool is closed'));
  }

  /** One timer for all that wait: they are in order of their ends, and hardly any ever gets there. */
  #watchWaiting(): void {
    const [first] = this.#waiting;
    if (!first || this.#waitingTimer) return;
    this.#waitingTimer = setTimeout(
      () => {
        this.#waitingTimer = undefined;
        const now = performance.now();
        while (this.#waiting[0] && this.#waiting[0].until <= now) {
          this.#waiting.shift()?.refuse(poolExhausted());
        }
        this.#watchWaiting();
      },
      Math.max(1, first.until - performance.now()),
    );
  }

  async #open(): Promise<Pooled> {
    this.#opening += 1;
    try {
      const opened = await openWire(this.#options, this.#options.onNotice);
      const connection = { ...opened, idleSince: 0 };
      this.#all.add(connection);
      return connection;
    } catch (error) {
      // Whoever waits for a slot would wait for nothing if nobody tried again.
      this.#waiting.shift()?.refuse(error instanceof Error ? error : new Error(String(error)));
      throw error;
    } finally {
      this.#opening -= 1;
    }
  }

  #release(connection: Pooled): void {
    const { wire } = connection;
    if (wire.usable && !wire.idle) {
      // A batch failed inside BEGIN: the transaction is still open and must not reach the next caller.
      wire.send([{ text: 'rollback', values: [] }], () => this.#giveBack(connection));
    } else {
      this.#giveBack(connection);
    }
  }

  #giveBack(connection: Pooled): void {
    if (!connection.wire.usable || !connection.wire.idle || this.#closed) {
      this.#discard(connection);
      this.#refill();
      return;
    }
    const waiting = this.#waiting.shift();
    if (waiting) {
      waiting.grant(connection);
      return;
    }
    connection.idleSince = Date.now();
    this.#idle.push(connection);
  }

  /** A lost connection frees a slot: open a new one for the request that waits longest. */
  #refill(): void {
    if (this.#closed || this.#waiting.length === 0) return;
    if (this.#all.size + this.#opening >= this.#options.max) return;
    this.#open().then(
      (connection) => this.#release(connection),
      () => {},
    );
  }

  #discard(connection: Pooled): void {
    this.#all.delete(connection);
    connection.wire.destroy();
  }

  #reap(): void {
    const oldest = Date.now() - this.#options.idleTimeoutMs;
    // The oldest idle ones are at the front; `pop` keeps the warm ones busy.
    while (this.#idle.length > this.#options.minIdle) {
      const [connection] = this.#idle;
      if (!connection || connection.idleSince > oldest) return;
      this.#idle.shift();
      this.#discard(connection);
    }
  }
}

export type CallerTransaction = {
  /** Rows as text, as PostgreSQL prints it; null stays null. */
  query(statement: Sql): Promise<Array<Record<string, string | null>>>;
};

/** Short stable names for statement texts; bounded, because texts come with request shapes. */
class StatementNames {
  static readonly MAX = 5_000;
  readonly #byText = new Map<string, string>();
  readonly #settings = new Map<string, WireStatement>();
  #next = 0;

  of(text: string): string {
    const known = this.#byText.get(text);
    if (known !== undefined) return known;
    // Numbers are never reused, so forgetting a text cannot make a name mean something else.
    if (this.#byText.size >= StatementNames.MAX) this.#byText.clear();
    const name = `_${(this.#next++).toString(36)}`;
    this.#byText.set(text, name);
    return name;
  }

  settings(names: readonly string[]): WireStatement {
    const key = names.join();
    const known = this.#settings.get(key);
    if (known) return known;
    const calls = names.map((name, index) => `set_config('${name}', $${index + 1}, true)`);
    const statement: WireStatement = {
      text: `select ${calls.join(', ')}`,
      name: `set_${this.#settings.size}`,
      values: [],
      // What set_config returns is what it was given.
      onRow: () => {},
    };
    this.#settings.set(key, statement);
    return statement;
  }
}

function toWire(statement: Sql): WireStatement {
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
