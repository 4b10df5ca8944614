// The connections of a backend. Each part of the product has its own, so that a part that waits for a lock does not
// block the others.
import type { Config } from '../../config/config.ts';
import type { Log } from '../../log/log.ts';
import type { ConnectionSettings } from '../../postgres/connection.ts';
import { genericPlan } from '../../postgres/generic-plan.ts';
import { DatabaseLink } from '../../postgres/link/database-link.ts';
import { OwnerDatabase, type OwnerSettings } from '../../postgres/owner-database.ts';
import { CallerPool, type CallerPoolOptions } from '../../postgres/pool/caller-pool.ts';
import type { StatementCounts } from '../../postgres/pool/statement-counts.ts';
import { sessionName } from '../../postgres/instances.ts';
import { maxReading } from '../../postgres/read-parallelism.ts';
import type { Provisioned } from '../../provision/provision.ts';
import type { ReplicaReads } from '../../postgres/replicas/replica-reads.ts';
import { openReplicas, type ReplicasOptions } from './replicas.ts';
import { requestSessionCheck } from '../../provision/request-session.ts';
import type { InstanceConnections } from '../health/connection-budget.ts';
import type { DatabaseMetrics, Operation } from '../health/database-metrics.ts';
import { PrimaryProbe } from '../health/primary-probe.ts';
import { LIMIT_MS } from '../health/readiness.ts';
import { SlowStatements } from './slow-statements.ts';

const MIGRATION_CONNECTIONS = 5;
/** Long enough for the sessions of one migration, which follow one another. */
const MIGRATION_IDLE_MS = 1_000;
/**
 * Deadlines of the product's statements, which are short. A slow one is stuck, and must fail while its
 * caller still waits.
 */
const OWNER_DEADLINES = { statementTimeoutMs: 15_000, lockTimeoutMs: 3_000 };
/** Reading the catalog of a large database takes long. */
const CATALOG_TIMEOUT_MS = 60_000;

export type Databases = {
  readonly owner: OwnerDatabase;
  readonly storage: OwnerDatabase;
  readonly catalog: OwnerDatabase;
  /** Used by `/ready`. */
  readonly probe: PrimaryProbe;
  readonly migration: OwnerDatabase;
  readonly callers: CallerPool;
  /** Undefined if replicas are not used. */
  readonly reads: ReplicaReads | undefined;
  /** Whether the requests reach the database directly or through a pooler. */
  readonly link: DatabaseLink;
  /** Cancels callers' statements and waits for those of the product. */
  close(): Promise<void>;
};

/**
 * LISTEN, the probe of `/ready`, the catalog, and the broadcasts of other instances. The change stream has
 * its own limit.
 */
const DIRECT_CONNECTIONS = 4;

/**
 * Returns the maximum connections of an instance with `processes` such processes. A migration briefly uses
 * more.
 */
export function maxConnections(
  { database: { pool } }: Config,
  { reads }: Pick<Databases, 'reads'>,
  processes = 1,
): InstanceConnections {
  // Replicas are compared with the position of the primary.
  const positions = reads === undefined ? 0 : 1;
  return {
    requests: processes * pool.max,
    own: processes * (pool.owner + DIRECT_CONNECTIONS + positions),
  };
}

/** Settings of the connections for requests. */
export type RequestConnections = ConnectionSettings & { readonly link: DatabaseLink };

export function requestConnections(
  { authenticator }: Provisioned,
  config: Config,
  instance: string,
  log: Log,
): RequestConnections {
  return {
    address: authenticator.data,
    applicationName: sessionName(instance, 'request'),
    statementTimeoutMs: config.server.timeouts.dbQueryMs,
    link: new DatabaseLink(log),
    check: requestSessionCheck(),
  };
}

export type DatabasesOptions = {
  readonly provisioned: Provisioned;
  readonly requests: RequestConnections;
  /** Configuration with the connection limits of one process. */
  readonly config: Config;
  readonly instance: string;
  readonly log: Log;
  readonly processes: number;
  /** Statements of requests that take at least this long are logged, in milliseconds. Undefined: none. */
  readonly slowMs?: number | undefined;
  readonly metrics?: DatabaseMetrics | undefined;
  readonly statementCounts?: StatementCounts | undefined;
};

export async function openDatabases(options: DatabasesOptions): Promise<Databases> {
  const { requests, config, metrics } = options;
  const { pool } = config.database;
  const owners = openOwners(options);
  const probe = openProbe(options);
  const slow = watchSlowStatements(options);
  const limits = await callerLimits(options, owners.owner, slow);
  let reads: ReplicaReads | undefined;
  const callers = new CallerPool({
    ...requests,
    ...limits,
    failoverWaitMs: config.database.failoverWaitMs,
    onWrite:
      config.database.replicas.reads === 'bounded'
        ? (caller, request) => reads?.noteWrite(caller, request)
        : undefined,
  });
  reads = openReads(options, callers, limits);
  await reads?.checkPositions();
  const { owner: auth, storage, catalog } = owners;
  const requestPool = {
    get size() {
      return callers.size;
    },
    max: pool.max,
  };
  metrics?.watch({ requests: requestPool, auth, storage, catalog });
  return {
    ...owners,
    probe,
    callers,
    reads,
    link: requests.link,
    async close() {
      slow?.close();
      reads?.close();
      callers.destroy();
      await Promise.all([probe, ...Object.values(owners)].map((connections) => connections.close()));
    },
  };
}

type Owners = Pick<Databases, 'owner' | 'storage' | 'catalog' | 'migration'>;

function openOwners({ provisioned: { owner }, config, instance, metrics }: DatabasesOptions): Owners {
  const { pool, failoverWaitMs } = config.database;
  type OwnerSession = Omit<OwnerSettings, 'applicationName' | 'idleTimeoutMs' | 'ran'> & {
    readonly idleTimeoutMs?: number;
  };
  const open = (kind: string, operation: Operation, session: OwnerSession): OwnerDatabase =>
    new OwnerDatabase({
      applicationName: sessionName(instance, kind),
      idleTimeoutMs: pool.idleTimeoutMs,
      ran: metrics && ((ms, error) => metrics.ran(operation, ms, error)),
      ...session,
    });
  // Storage gets three of every eight connections: a lock on the tables of auth must not block public files.
  const forStorage = Math.max(1, Math.round((pool.owner * 3) / 8));
  const product = (max: number): OwnerSession => ({
    address: owner.data,
    max,
    ...OWNER_DEADLINES,
    failoverWaitMs,
    link: new DatabaseLink(),
  });
  return {
    owner: open('auth', 'auth', product(pool.owner - forStorage)),
    storage: open('storage', 'storage', product(forStorage)),
    catalog: open('catalog', 'meta', {
      address: owner.direct,
      max: 1,
      statementTimeoutMs: CATALOG_TIMEOUT_MS,
    }),
    // Migrations limit their waits themselves, and some of their steps have no upper bound.
    migration: open('migrate', 'meta', {
      address: owner.direct,
      max: MIGRATION_CONNECTIONS,
      idleTimeoutMs: MIGRATION_IDLE_MS,
    }),
  };
}

function openProbe({ provisioned: { owner }, instance }: DatabasesOptions): PrimaryProbe {
  const applicationName = sessionName(instance, 'probe');
  return new PrimaryProbe({ address: owner.direct, applicationName, statementTimeoutMs: LIMIT_MS }, LIMIT_MS);
}

/** Undefined if slow statements are not logged. */
function watchSlowStatements({
  provisioned: { authenticator },
  instance,
  log,
  slowMs,
}: DatabasesOptions): SlowStatements | undefined {
  if (slowMs === undefined) return undefined;
  const session = { address: authenticator.direct, applicationName: sessionName(instance, 'plan') };
  return new SlowStatements({
    log,
    plan: async (statement) => await genericPlan({ ...statement, ...session }),
  });
}

type CallerLimits = ReplicasOptions['limits'] & Pick<CallerPoolOptions, 'ran'>;

async function callerLimits(
  { config, processes, slowMs, metrics, statementCounts }: DatabasesOptions,
  owner: OwnerDatabase,
  slow: SlowStatements | undefined,
): Promise<CallerLimits> {
  const { pool } = config.database;
  return {
    max: pool.max,
    maxReading: await maxReading(owner, processes),
    minIdle: pool.min,
    idleTimeoutMs: pool.idleTimeoutMs,
    queue: pool.queue,
    ran:
      metrics &&
      ((kind, waitedMs, ms, error) => {
        metrics.waited(waitedMs);
        metrics.ran(kind, ms, error);
      }),
    count: statementCounts?.count,
    slow: slow && slowMs !== undefined ? { ms: slowMs, seen: slow.seen } : undefined,
  };
}

/** Undefined if replicas are not used. */
function openReads(
  { provisioned: { owner, authenticator }, requests, config, instance, log }: DatabasesOptions,
  primary: CallerPool,
  limits: CallerLimits,
): ReplicaReads | undefined {
  const { replicas } = config.database;
  const { reads: rule } = replicas;
  if (authenticator.read === undefined || rule === 'off') return undefined;
  return openReplicas(authenticator.read, {
    rules: { ...replicas, reads: rule },
    primary,
    instance,
    position: { address: owner.direct, applicationName: sessionName(instance, 'position') },
    requests,
    limits,
    log,
  });
}
