// Which keys of svc.yaml a reload applies, and which the service reads at its start only. Every key is in one of the
// two lists; a test says which one is missing.
import type { Config } from './config.ts';

/** By key, what the service was started with. */
const AT_START: Readonly<Record<string, (config: Config) => unknown>> = {
  'database.pool.max': ({ database }) => database.pool.max,
  'database.pool.min': ({ database }) => database.pool.min,
  'database.pool.owner': ({ database }) => database.pool.owner,
  'database.pool.idle_timeout': ({ database }) => database.pool.idleTimeoutMs,
  'database.failover_wait': ({ database }) => database.failoverWaitMs,
  'database.pool.queue': ({ database }) => database.pool.queue,
  'database.replicas.reads': ({ database }) => database.replicas.reads,
  'database.replicas.max_staleness': ({ database }) => database.replicas.maxStalenessMs,
  'database.replicas.wait': ({ database }) => database.replicas.waitMs,
  'database.replicas.without_primary': ({ database }) => database.replicas.withoutPrimary,
  'server.port': ({ server }) => server.port,
  'server.processes': ({ server }) => server.processes,
  'server.listen_early': ({ server }) => server.listenEarly,
  'server.timeouts.db_query': ({ server }) => server.timeouts.dbQueryMs,
  'realtime.enabled': ({ realtime }) => realtime.enabled,
  'realtime.source': ({ realtime }) => realtime.source,
  'providers.storage': ({ providers }) => providers.storage,
};

/** Read anew for each request, or applied by the migration and the workers of a reload. */
const AT_RELOAD: readonly string[] = [
  'version',
  'include',
  'sql',
  'project',
  'server.max_body_size',
  'server.max_response_size',
  'server.response_budget',
  'server.max_in_flight',
  'server.max_limit',
  'server.cors',
  'server.trusted_proxies',
  'server.timeouts.request',
  'server.timeouts.upload',
  'server.timeouts.header',
  'server.timeouts.body_idle',
  'server.timeouts.response_idle',
  'server.timeouts.drain_delay',
  'server.timeouts.shutdown',
  'providers.email',
  'auth',
  'types',
  'sequences',
  'extensions',
  'tables',
  'views',
  'statements',
  'storage',
  'realtime.private_only',
  'realtime.retention',
  'realtime.rls',
  'realtime.limits',
  'rpc',
  'functions',
  'functions_bundle',
  'schedules',
  'expose',
  'seed',
  'migrations',
];

/** How a change of this key, or of one below it, comes into effect; undefined for a key that is in neither list. */
export function keyEffect(key: string): 'reload' | 'restart' | undefined {
  const isIn = (known: string): boolean => key === known || key.startsWith(`${known}.`);
  if (Object.keys(AT_START).some(isIn)) return 'restart';
  return AT_RELOAD.some(isIn) ? 'reload' : undefined;
}

/** Keys that differ from what the service was started with, and that only a restart applies. */
export function keysForRestart(started: Config, next: Config): string[] {
  return Object.entries(AT_START)
    .filter(([, valueIn]) => JSON.stringify(valueIn(started)) !== JSON.stringify(valueIn(next)))
    .map(([key]) => key);
}
