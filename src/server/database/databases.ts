// The connections of a backend. Each part of the product has its own, so that a part that waits for a lock does not
// block the others.
import type { Config } from '../../config/config.ts';
import type { DatabaseAddress } from '../../postgres/address/database-address.ts';
import type { Log } from '../../log/log.ts';
import type { ConnectionSettings } from '../../postgres/connection.ts';
import { genericPlan } from '../../postgres/generic-plan.ts';
import { DatabaseLink } from '../../postgres/link/database-link.ts';
import { OwnerDatabase, type OwnerSettings } from '../../postgres/owner-database.ts';
import { CallerPool } from '../../postgres/pool/caller-pool.ts';
import type { StatementCounts } from '../../postgres/pool/statement-counts.ts';
import { sessionName } from '../../postgres/instances.ts';
import { maxReading } from '../../postgres/read-parallelism.ts';
import type { Provisioned } from '../../provision/provision.ts';
import type { ReplicaReads } from '../../postgres/replicas/replica-reads.ts';
import { openReplicas } from './replicas.ts';
import { requestSessionCheck } from '../../provision/request-session.ts';
import type { InstanceConnections } from '../health/connection-budget.ts';
import type { DatabaseMetrics, Operation } from '../health/database-metrics.ts';
import { PrimaryProbe } from '../health/primary-probe.ts';
import { LIMIT_MS } from '../health/readiness.ts';
import { SlowStatements } from './slow-statements.ts';

const MIGRATION_CONNECTIONS = 5;
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
  const { requests, config, instance, log, processes, slowMs, metrics, statementCounts } = options;
  const { owner, authenticator } = options.provisioned;
  const { pool, replicas } = config.database;
  const open = (
    address: DatabaseAddress,
    kind: string,
    operation: Operation,
    max: number,
    settings: Pick<OwnerSettings, 'statementTimeoutMs' | 'lockTimeoutMs' | 'failoverWaitMs' | 'link'>,
  ): OwnerDatabase =>
    new OwnerDatabase({
      address,
      applicationName: sessionName(instance, kind),
      max,
      idleTimeoutMs: pool.idleTimeoutMs,
      ran: metrics && ((ms, error) => metrics.ran(operation, ms, error)),
      ...settings,
    });
  // Storage gets three of every eight connections: a lock on the tables of auth must not block public files.
  const forStorage = Math.max(1, Math.round((pool.owner * 3) / 8));
  const deadlines = { ...OWNER_DEADLINES, failoverWaitMs: config.database.failoverWaitMs };
  const owners = {
    owner: open(owner.data, 'auth', 'auth', pool.owner - forStorage, {
      ...deadlines,
      link: new DatabaseLink(),
    }),
    storage: open(owner.data, 'storage', 'storage', forStorage, { ...deadlines, link: new DatabaseLink() }),
    catalog: open(owner.direct, 'catalog', 'meta', 1, { statementTimeoutMs: CATALOG_TIMEOUT_MS }),
    // Migrations limit their waits themselves, and some of their steps have no upper bound.
    migration: open(owner.direct, 'migrate', 'meta', MIGRATION_CONNECTIONS, {}),
  };
  const probe = new PrimaryProbe(
    {
      address: owner.direct,
      applicationName: sessionName(instance, 'probe'),
      statementTimeoutMs: LIMIT_MS,
    },
    LIMIT_MS,
  );
  let reads: ReplicaReads | undefined;
  const slow =
    slowMs === undefined
      ? undefined
      : new SlowStatements({
          log,
          plan: async (statement) =>
            await genericPlan({
              ...statement,
              address: authenticator.direct,
              applicationName: sessionName(instance, 'plan'),
            }),
        });
  const limits = {
    max: pool.max,
    maxReading: await maxReading(owners.owner, processes),
    minIdle: pool.min,
    idleTimeoutMs: pool.idleTimeoutMs,
    queue: pool.queue,
    ran:
      metrics &&
      ((kind: 'read' | 'write', waitedMs: number, ms: number, error?: Error) => {
        metrics.waited(waitedMs);
        metrics.ran(kind, ms, error);
      }),
    count: statementCounts?.count,
    slow: slow && slowMs !== undefined ? { ms: slowMs, seen: slow.seen } : undefined,
  };
  const callers = new CallerPool({
    ...requests,
    ...limits,
    failoverWaitMs: config.database.failoverWaitMs,
    onWrite:
      replicas.reads === 'bounded' ? (caller, request) => reads?.noteWrite(caller, request) : undefined,
  });
  const { reads: rule } = replicas;
  if (authenticator.read !== undefined && rule !== 'off') {
    reads = openReplicas(authenticator.read, {
      rules: { ...replicas, reads: rule },
      primary: callers,
      instance,
      position: { address: owner.direct, applicationName: sessionName(instance, 'position') },
      requests,
      limits,
      log,
    });
    await reads.checkPositions();
  }
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
