// The database part of a backend: prepares, checks and connects the database.
import { StatementCounts } from '../../postgres/pool/statement-counts.ts';
import { provision, type Provisioned } from '../../provision/provision.ts';
import { assertRequestSession } from '../../provision/request-session.ts';
import type { BackendOptions } from '../backend-options.ts';
import { openDatabases, requestConnections, type Databases } from '../database/databases.ts';
import type { ServerMetrics } from '../health/metrics.ts';
import { connectionsPerProcess } from '../per-process.ts';

export type Connections = {
  readonly provisioned: Provisioned;
  readonly databases: Databases;
  /** Undefined without a dashboard, which shows the counts. */
  readonly statementCounts: StatementCounts | undefined;
};

export async function openConnections(
  options: BackendOptions & { readonly instance: string; readonly processes: number },
  metrics: ServerMetrics | undefined,
): Promise<Connections> {
  const { config, instance, log, processes } = options;
  const provisioned = await provision(options.database, {
    log,
    waitMs: options.databaseWaitMs ?? 0,
    signal: options.signal,
  });
  const requests = requestConnections(provisioned, config, instance, log);
  await assertRequestSession(requests);
  if (provisioned.applied.length > 0) log.debug({ steps: provisioned.applied }, 'provisioned the database');
  const statementCounts = options.dashboard && new StatementCounts();
  const databases = await openDatabases({
    provisioned,
    requests,
    config: connectionsPerProcess(config, processes),
    instance,
    log,
    processes,
    slowMs: options.slowMs,
    metrics: metrics?.database,
    statementCounts,
  });
  return { provisioned, databases, statementCounts };
}
