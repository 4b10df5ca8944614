// The HTTP application: composes the server, the steps before and after the feature of a request, and the features. No
// route of an API is defined here.
import { randomUUID } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { AnswerBudget } from '../http/answer-budget.ts';
import { BrowserKeyWatch } from '../http/browser-key.ts';
import { ClientReader } from '../http/client.ts';
import type { CorsPolicy } from '../http/cors.ts';
import type { FeatureContext, Mount } from '../http/feature.ts';
import type { Log } from '../log/log.ts';
import type { Problem } from '../problem/problem.ts';
import { registerDescription } from './description.ts';
import { registerHealth, type HealthState } from './health/health.ts';
import type { RequestMetrics } from './health/request-metrics.ts';
import type { Timeouts } from './request-path/deadlines.ts';
import { earlyRefusal } from './request-path/early-refusal.ts';
import { createHttpServer } from './request-path/http-server.ts';
import { InFlight } from './request-path/in-flight.ts';
import { addProblemHandlers } from './request-path/problems.ts';
import { addRequestSteps, STARTING } from './request-path/request-steps.ts';
import { requestsSocket, onUpgrade, type UpgradeOptions } from './upgrade.ts';

export type AppOptions = {
  readonly log: Log;
  readonly health: HealthState;
  readonly mounts: readonly Mount[];
  readonly context: FeatureContext;
  /** Called for every request, so that a reload of the file takes effect immediately. */
  readonly cors: () => CorsPolicy;
  readonly timeouts: () => Timeouts;
  /** Defaults to a reader that trusts no proxy. */
  readonly clients?: ClientReader;
  /** Maximum number of concurrent requests. Default: unlimited. */
  readonly maxInFlight?: () => number;
  /** Maximum bytes of responses that are built and not yet read by their clients. Default: unlimited. */
  readonly responseBudget?: () => number;
  /** Path and handler of WebSockets. Undefined: no sockets. */
  readonly sockets?: Pick<UpgradeOptions, 'path' | 'accept' | 'format'>;
  /** Whether responses close their connections, because the process accepts no more requests on them. */
  readonly endsConnections?: () => boolean;
  /** Share of requests below 400 that are logged, from 0 to 1. Default: 1. */
  readonly logSample?: number;
  /** Whether request lines in the log contain user ids. */
  readonly logUsers?: boolean;
  /** Counts responses. Undefined: they are not counted. */
  readonly requestMetrics?: RequestMetrics | undefined;
  /** Adds routes outside the APIs. */
  readonly addRoutes?: ((server: FastifyInstance) => void) | undefined;
};

export type App = {
  readonly server: FastifyInstance;
  /** Requests that are being answered. */
  readonly inFlight: InFlight;
};

const NONE: readonly string[] = [];

export async function createApp(options: AppOptions): Promise<App> {
  const { log, health, cors, context, sockets } = options;
  const inFlight = new InFlight();
  const nextId = requestIds();
  const clients = options.clients ?? new ClientReader({ trusted: () => NONE, dev: context.dev, log });
  const browserKeys = new BrowserKeyWatch(log);
  const server = createHttpServer({
    log,
    early: earlyRefusal({ log, mounts: options.mounts, cors, nextId, inFlight }),
    cors,
    nextId,
    upgrades: sockets && ((request) => requestsSocket(request, sockets.path)),
  });
  if (sockets) {
    const refusal = (): Problem | undefined => (health.phase() === 'serving' ? health.refusal?.() : STARTING);
    server.server.on('upgrade', onUpgrade({ ...sockets, refusal, clients, nextId, log, browserKeys }));
  }
  addRequestSteps(server, {
    log,
    health,
    inFlight,
    clients,
    cors,
    timeouts: options.timeouts,
    maxInFlight: options.maxInFlight ?? (() => Number.POSITIVE_INFINITY),
    answers: options.responseBudget && new AnswerBudget(options.responseBudget),
    endsConnections: options.endsConnections,
    browserKeys,
    logSample: options.logSample ?? 1,
    logUsers: options.logUsers,
    requestMetrics: options.requestMetrics,
  });
  addProblemHandlers(server, log);
  if (context.dev) redirectToDashboard(server);
  registerHealth(server, health);
  registerDescription(server, context);
  options.addRoutes?.(server);
  for (const { prefix, feature } of options.mounts) {
    await server.register(feature(context), { prefix });
  }
  await server.ready();
  return { server, inFlight };
}

/** Shows the dashboard to a browser that opens the URL of `svc dev`. */
function redirectToDashboard(server: FastifyInstance): void {
  server.get('/', (request, reply) => {
    if (request.headers.accept?.includes('text/html') === true) reply.redirect('/dashboard/');
    else reply.callNotFound();
  });
}

/**
 * Returns a generator of ids: a random part per process and a counter. Ids are unique among instances, but
 * not secret.
 */
function requestIds(): () => string {
  const process = randomUUID().slice(0, 24);
  let count = 0;
  return () => process + (count++).toString(16).padStart(12, '0');
}
