// Whether the server has room for the connections of all instances: known before the last of them is refused. Nothing is
// made smaller unasked.
import type { Log } from '../../log/log.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { readInstancesAlive } from '../../postgres/presence.ts';
import { raw } from '../../postgres/sql.ts';

/** Most connections of one instance, by who they are. */
export type InstanceConnections = {
  /** As `authenticator`: `database.pool.max`. */
  readonly requests: number;
  /** As `svc_owner`: `database.pool.owner`, and those that are always there. */
  readonly own: number;
};

/** Undefined where there is none. */
export type ConnectionLimits = {
  /** `max_connections` without what is reserved. */
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
  /** What is too small and what to do; undefined when there is room. */
  readonly shortage: string | undefined;
};

const EVERY_MS = 60_000;

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
  const shortages = checks.flatMap(([name, size, most, fixed]) => {
    if (most === undefined || instances * size <= most) return [];
    const sum = `${instances} ${instances === 1 ? 'instance' : 'instances'} × ${size} = ${instances * size} of ${most} (${name})`;
    const fitting = Math.floor(most / instances) - fixed;
    return `${sum}: ${fitting < 1 ? 'raise it' : `lower database.pool.max to ${fitting}`} or put a pooler before it`;
  });
  return { instances, each, sum: instances * each, limit, shortage: shortages[0] };
}

export async function readConnectionLimits(db: Queryable): Promise<ConnectionLimits> {
  const [row] = await db.query<Record<'server' | 'database' | 'authenticator' | 'owner', number | null>>(
    // `reserved_connections` is there from PostgreSQL 16 on.
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
  /** On the direct address. */
  readonly db: Queryable;
  readonly each: InstanceConnections;
  /** Behind a pooler the connections of instances are not the server's. */
  readonly isPooled: () => boolean;
  readonly log: Log;
};

/** Looks at the start and once a minute, and warns when there is something new to say. */
export class BudgetWatch {
  readonly #options: BudgetWatchOptions;
  #timer: NodeJS.Timeout | undefined;
  #budget: Budget | undefined;

  constructor(options: BudgetWatchOptions) {
    this.#options = options;
  }

  /** Of the last look; undefined behind a pooler. */
  get budget(): Budget | undefined {
    return this.#budget;
  }

  start(): void {
    void this.#look();
    this.#timer = setInterval(() => void this.#look(), EVERY_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
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
      // The database is away: the next look tells.
      log.debug({ err: error }, 'could not look whether there are enough connections');
    }
  }
}
