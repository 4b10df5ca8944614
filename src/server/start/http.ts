// The HTTP part of a backend: the application, its probes and its metrics.
import { createHash } from 'node:crypto';
import type { Config } from '../../config/config.ts';
import { realtimeFormat } from '../../realtime/problem.ts';
import { SOCKET_PATH } from '../../realtime/realtime.ts';
import { createApp, type App } from '../app.ts';
import type { BackendOptions } from '../backend-options.ts';
import type { HealthState } from '../health/health.ts';
import { metricsToken, ServerMetrics } from '../health/metrics.ts';
import { StoredFigures } from '../health/stored-figures.ts';
import { perProcess } from '../per-process.ts';
import { logSample, logsUsers } from '../request-path/request-line.ts';
import { hasSecretKey } from './identity.ts';
import type { Services, StartOptions } from './services.ts';

/**
 * Returns undefined if no client can read metrics, or if several processes share the port: each has its
 * own counts.
 */
export function createMetrics({
  log,
  dev,
  env,
  admin,
  processes = 1,
}: BackendOptions): ServerMetrics | undefined {
  if (metricsToken(env) === undefined && admin === undefined && !dev) return undefined;
  if (processes === 1) return new ServerMetrics();
  log.warn('metrics and the admin port are off, because they need server.processes: 1');
  return undefined;
}

export function createHealth(options: StartOptions, services: Services): HealthState {
  const { clients, context, databases, drainDelay, imports, readiness, budget, realtime } = services;
  return {
    phase: () => options.state.phase,
    refusal: () => imports?.refusal,
    onProbe: () => drainDelay.recordProbe(),
    readiness: () => readiness.current,
    isInsider: ({ raw }) => clients.isInsider(raw) || hasSecretKey(context.credentials, raw),
    details: () => ({
      instance: options.instance,
      link: databases.link.description,
      connections: budget.budget,
    }),
    superseded: () => options.superseded?.() !== undefined,
    realtime: () => realtime.state,
  };
}

type HttpParts = {
  readonly services: Services;
  readonly health: HealthState;
  readonly metrics: ServerMetrics | undefined;
};

export async function createHttp(
  options: StartOptions,
  { services, health, metrics }: HttpParts,
): Promise<App> {
  const { clients, context, current, mounts, realtime } = services;
  const { dev, env, log, processes, state } = options;
  const token = metricsToken(env);
  return await createApp({
    log,
    logSample: logSample(env),
    logUsers: logsUsers(env),
    context,
    mounts: mounts.mounts,
    health,
    sockets: {
      path: `/realtime/v1${SOCKET_PATH}`,
      accept: async (upgrade) => await realtime.upgrade(upgrade),
      format: realtimeFormat,
    },
    cors: () => ({ origins: current().server.cors.origins, allowLoopback: dev }),
    timeouts: () => current().server.timeouts,
    clients,
    requestMetrics: metrics?.requests,
    addRoutes: (server) => {
      if (token === undefined && !dev) return;
      metrics?.registerGuarded(server, token, ({ raw }) => dev && clients.isInsider(raw));
    },
    endsConnections: () => state.phase === 'draining' || state.isClosed,
    maxInFlight: () => perProcess(current().server.maxInFlight, processes, 1),
    responseBudget: () => {
      const { responseBudgetBytes, maxResponseBytes } = current().server;
      return perProcess(responseBudgetBytes, processes, Math.min(responseBudgetBytes, maxResponseBytes));
    },
  });
}

/** Lets the metrics read the figures of the other parts. */
export function followFigures(
  metrics: ServerMetrics | undefined,
  app: App,
  { options, services }: { readonly options: StartOptions; readonly services: Services },
): void {
  const { databases, deliveries, functions, readiness, realtime, served } = services;
  metrics?.follow({
    isReady: () => readiness.current.isReady,
    inFlight: () => app.inFlight.size,
    configHash: () => served.config && shortHash(served.config),
    pendingChanges: () => options.pendingChanges?.(),
    catalogAgeMs: () => served.catalogAgeMs,
    isListening: () => served.isListening,
    stored: new StoredFigures(databases.owner),
    errorReports: options.errorReports,
    more: [(all) => functions.measure(all), (all) => deliveries.measure(all), (all) => realtime.measure(all)],
  });
}

/** Returns a hash that distinguishes files in metrics. */
function shortHash({ source }: Config): string {
  return createHash('sha256').update(source.text).digest('hex').slice(0, 8);
}
