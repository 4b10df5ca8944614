// The steps before and after the feature of a request.
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { AnswerBudget } from '../../http/answer-budget.ts';
import type { BrowserKeyWatch } from '../../http/browser-key.ts';
import type { ClientReader } from '../../http/client.ts';
import { applyCors, varyByOrigin, type CorsPolicy } from '../../http/cors.ts';
import { isDashboardRead, RequestScope } from '../../http/request-scope.ts';
import { readTraceId } from '../../http/trace-context.ts';
import { withoutRedaction, type Log } from '../../log/log.ts';
import { overloaded } from '../../problem/overloaded.ts';
import { Problem } from '../../problem/problem.ts';
import type { HealthState } from '../health/health.ts';
import type { RequestMetrics } from '../health/request-metrics.ts';
import { Deadlines, type Timeouts } from './deadlines.ts';
import type { InFlight } from './in-flight.ts';
import { requestLine } from './request-line.ts';
import { closeAfterRest, dropRest, endsWithAnswer } from './rest-of-request.ts';

export const STARTING = new Problem('starting', 503, 'The service is starting', {
  hint: 'Try again in a moment.',
  headers: { 'retry-after': '1' },
});

const PROBES: ReadonlySet<string> = new Set(['/live', '/health', '/ready', '/metrics']);

export type RequestStepOptions = {
  readonly log: Log;
  readonly health: HealthState;
  readonly inFlight: InFlight;
  readonly clients: ClientReader;
  readonly cors: () => CorsPolicy;
  readonly timeouts: () => Timeouts;
  readonly maxInFlight: () => number;
  readonly answers: AnswerBudget | undefined;
  readonly endsConnections: (() => boolean) | undefined;
  readonly browserKeys: BrowserKeyWatch;
  readonly logSample: number;
  readonly logUsers: boolean | undefined;
  readonly requestMetrics: RequestMetrics | undefined;
};

export function addRequestSteps(server: FastifyInstance, options: RequestStepOptions): void {
  addFirstStep(server, options);
  server.addHook('onSend', (request, reply, _payload, done) => {
    if (request.routeOptions.config.writesHead === true) reply.header('x-request-id', request.id);
    varyByOrigin(reply);
    if (endsWithAnswer(request, reply.statusCode)) {
      reply.header('connection', 'close');
      closeAfterRest(request.raw);
    }
    done();
  });
  addLastStep(server, options);
}

/** Gives the request its scope, then refuses it or passes it to its feature. */
function addFirstStep(server: FastifyInstance, options: RequestStepOptions): void {
  const { health, inFlight, clients, cors, maxInFlight, answers, endsConnections } = options;
  const deadlines = new Deadlines(inFlight, server.server, options.timeouts, options.log);
  server.addHook('onClose', (_server, done) => {
    deadlines.close();
    done();
  });
  server.addHook('onRequest', (request, reply, done) => {
    request.client = clients.read(request.raw);
    const scope = new RequestScope(request.id, request.client.address);
    scope.isUncounted = isDashboardRead(request.raw);
    scope.answers = answers;
    scope.writtenBefore = request.raw.socket.bytesWritten;
    scope.traceId = readTraceId(request.raw);
    request.scope = scope;
    inFlight.add(scope);
    const { config } = request.routeOptions;
    if (config.writesHead !== true) reply.raw.setHeader('X-Request-Id', request.id);
    // A kept-alive connection would delay the shutdown until its client closes it.
    if (endsConnections?.() === true) reply.raw.setHeader('Connection', 'close');
    deadlines.watch(scope, request, reply);
    reply.raw.once('close', () => {
      inFlight.delete(scope);
      scope.answer?.release();
      if (!reply.raw.writableFinished) scope.abort('client-gone');
    });
    if (applyCors(request, reply, cors())) return;
    // Passed as an error, so that the API renders it in its format.
    const refusal = health.phase() === 'starting' ? STARTING : health.refusal?.();
    if (PROBES.has(request.url)) done();
    else if (refusal) done(refusal);
    else if (config.reserved !== true && !inFlight.hasRoomFor(scope, maxInFlight())) done(overloaded());
    else done();
  });
}

/** Counts the response and logs it. */
function addLastStep(server: FastifyInstance, options: RequestStepOptions): void {
  const { log, browserKeys, requestMetrics, logSample, logUsers } = options;
  // `loggedUrl` has removed the secrets of an address. The other fields have none.
  const requestLog = withoutRedaction(log);
  server.addHook('onResponse', (request, reply, done) => {
    const { statusCode } = reply;
    if (request.headers.origin !== undefined && statusCode < 400)
      browserKeys.check(request.headers, request.url.split('?', 2)[1] ?? '');
    if (!request.raw.complete) dropRest(request.raw);
    // A forwarded request is counted and logged by the process that answers it.
    if (request.scope.handedOn) {
      done();
      return;
    }
    requestMetrics?.observe(request, reply);
    const level = logLevel(request, statusCode);
    const isInSample = statusCode >= 400 || logSample === 1 || Math.random() < logSample;
    if (log.isLevelEnabled(level) && isInSample)
      requestLog[level](requestLine(request, reply, logUsers), 'request');
    done();
  });
}

function logLevel(request: FastifyRequest, status: number): 'debug' | 'info' | 'error' {
  if (PROBES.has(request.url)) return 'debug';
  // No client received the response, so its status does not indicate a failure of the server.
  if (request.scope.aborted === 'client-gone') return 'info';
  // 501 answers a request for a feature that svc does not have.
  if (status >= 500 && status !== 501) return 'error';
  // A browser sends a preflight before a request. The request has its own line.
  if (request.method === 'OPTIONS' && status < 400) return 'debug';
  const isRoutine = request.routeOptions.config.routine === true || isDashboardRead(request.raw);
  return isRoutine && status < 400 ? 'debug' : 'info';
}
