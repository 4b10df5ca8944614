// Lists the keys of svc.yaml that a reload applies, and those that the service only reads at its start. A test checks
// that every key is in one of the two lists.
import type { Config } from './config.ts';

/** Values that are only read at the start, by key. */
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

/** Keys that are read for each request, or applied by the migration and the workers of a reload. */
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

/** Returns how a change of this key or of a key below takes effect. Undefined for a key in neither list. */
export function keyEffect(key: string): 'reload' | 'restart' | undefined {
  const isIn = (known: string): boolean => key === known || key.startsWith(`${known}.`);
  if (Object.keys(AT_START).some(isIn)) return 'restart';
  return AT_RELOAD.some(isIn) ? 'reload' : undefined;
}

/** Returns changed keys that only a restart applies. */
export function keysForRestart(started: Config, next: Config): string[] {
  return Object.entries(AT_START)
    .filter(([, valueIn]) => JSON.stringify(valueIn(started)) !== JSON.stringify(valueIn(next)))
    .map(([key]) => key);
}
