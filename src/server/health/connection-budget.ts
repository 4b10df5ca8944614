// Checks whether the database server has enough connections for all instances, before it refuses one. Only reports: it
// does not change any pool.
import type { Log } from '../../log/log.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { readInstancesAlive } from '../../postgres/instances.ts';
import { raw } from '../../postgres/sql.ts';

/** Maximum number of connections of one instance, by role. */
export type InstanceConnections = {
  /** Connections as `authenticator`: `database.pool.max`. */
  readonly requests: number;
  /** Connections as `svc_owner`: `database.pool.owner` and the permanent ones. */
  readonly own: number;
};

/** Limits of the server. Undefined: no limit. */
export type ConnectionLimits = {
  /** `max_connections` without the reserved ones. */
  readonly server: number;
  readonly database?: number | undefined;
  readonly authenticator?: number | undefined;
  readonly owner?: number | undefined;
};

export type Budget = {
  readonly instances: number;
  readonly each: number;
  readonly sum: number;
  readonly limit: number;
  /** The limit that is too small and what to do. Undefined if there are enough connections. */
  readonly shortage: string | undefined;
};

const CHECK_INTERVAL_MS = 60_000;

export function toBudget(
  instances: number,
  { requests, own }: InstanceConnections,
  limits: ConnectionLimits,
): Budget {
  const each = requests + own;
  const { server, database = server, authenticator, owner } = limits;
  const limit = Math.min(server, database);
  const checks: ReadonlyArray<
    readonly [name: string, each: number, limit: number | undefined, fixed: number]
  > = [
    [database < server ? 'CONNECTION LIMIT of the database' : 'max_connections', each, limit, own],
    ['CONNECTION LIMIT of the role authenticator', requests, authenticator, 0],
    ['CONNECTION LIMIT of the role svc_owner', own, owner, own],
  ];
  const shortages = checks.flatMap(([name, size, max, fixed]) => {
    if (max === undefined || instances * size <= max) return [];
    const sum = `${instances} ${instances === 1 ? 'instance' : 'instances'} × ${size} = ${instances * size} of ${max} (${name})`;
    const fitting = Math.floor(max / instances) - fixed;
    return `${sum}: ${fitting < 1 ? 'raise it' : `lower database.pool.max to ${fitting}`} or put a pooler before it`;
  });
  return { instances, each, sum: instances * each, limit, shortage: shortages[0] };
}

async function readConnectionLimits(db: Queryable): Promise<ConnectionLimits> {
  const [row] = await db.query<Record<'server' | 'database' | 'authenticator' | 'owner', number | null>>(
    // `reserved_connections` exists since PostgreSQL 16.
    raw(`select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true)::int, 0) as server,
      (select nullif(datconnlimit, -1) from pg_catalog.pg_database where datname = current_database()) as database,
      (select nullif(rolconnlimit, -1) from pg_catalog.pg_roles where rolname = 'authenticator') as authenticator,
      (select nullif(rolconnlimit, -1) from pg_catalog.pg_roles where rolname = current_user) as owner`),
  );
  if (!row) throw new Error('no row of limits');
  const { server, database, authenticator, owner } = row;
  return {
    server: server ?? Number.POSITIVE_INFINITY,
    database: database ?? undefined,
    authenticator: authenticator ?? undefined,
    owner: owner ?? undefined,
  };
}

export type BudgetWatchOptions = {
  /** Uses the direct address. */
  readonly db: Queryable;
  readonly each: InstanceConnections;
  /** Whether requests go through a pooler. Their connections then do not count against the server's limit. */
  readonly isPooled: () => boolean;
  readonly log: Log;
};

/** Checks the budget at the start and once a minute. Warns if the shortage has changed. */
export class BudgetWatch {
  readonly #options: BudgetWatchOptions;
  #timer: NodeJS.Timeout | undefined;
  #budget: Budget | undefined;

  constructor(options: BudgetWatchOptions) {
    this.#options = options;
  }

  /** Result of the last check. Undefined behind a pooler. */
  get budget(): Budget | undefined {
    return this.#budget;
  }

  start(): void {
    void this.#check();
    this.#timer = setInterval(() => void this.#check(), CHECK_INTERVAL_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #check(): Promise<void> {
    const { db, each, isPooled, log } = this.#options;
    if (isPooled()) {
      this.#budget = undefined;
      return;
    }
    try {
      const before = this.#budget?.shortage;
      const instances = Math.max(1, (await readInstancesAlive(db)).length);
      this.#budget = toBudget(instances, each, await readConnectionLimits(db));
      const { shortage } = this.#budget;
      if (shortage !== undefined && shortage !== before) {
        log.warn(`the database may refuse connections when all instances are busy: ${shortage}`);
      }
    } catch (error) {
      // The database does not respond. The next check reports a shortage.
      log.debug({ err: error }, 'could not check whether there are enough connections');
    }
  }
}
