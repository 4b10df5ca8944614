// The HTTP application: the steps before and after the feature of a request. It only composes; no route of an API is
// defined here.
import { randomUUID } from 'node:crypto';
import { METHODS, type IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import fastify, {
  LogController,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify';
import { AnswerBudget } from '../http/answer-budget.ts';
import { bodyTooSlow, passBodyThrough } from '../http/body.ts';
import { BrowserKeyWatch } from '../http/browser-key.ts';
import { ClientReader } from '../http/client.ts';
import { applyCors, varyByOrigin, type CorsPolicy } from '../http/cors.ts';
import type { FeatureContext, Mount } from '../http/feature.ts';
import { toBody } from '../http/refusal-format.ts';
import { isDashboardRead, RequestScope } from '../http/request-scope.ts';
import { originForm } from '../http/request-target.ts';
import { readTraceId } from '../http/trace-context.ts';
import { withoutRedaction, type Log } from '../log/log.ts';
import { databaseFailure, failureProblem } from '../postgres/pg-error.ts';
import { overloaded } from '../problem/overloaded.ts';
import { Abort, Problem } from '../problem/problem.ts';
import { registerDescription } from './description.ts';
import { registerHealth, type HealthState } from './health/health.ts';
import type { RequestMetrics } from './health/request-metrics.ts';
import { loggedUrl } from './logged-url.ts';
import { Deadlines, type Timeouts } from './request-path/deadlines.ts';
import { corsHeaders, earlyRefusal } from './request-path/early-refusal.ts';
import { InFlight } from './request-path/in-flight.ts';
import { refusalFields, requestLine } from './request-path/request-line.ts';
import { closeAfterRest, dropRest, endsWithAnswer } from './request-path/rest-of-request.ts';
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

/** Interval at which the parser checks for connections that are late. */
const CHECK_CONNECTIONS_MS = 1_000;

const STARTING = new Problem('starting', 503, 'The service is starting', {
  hint: 'Try again in a moment.',
  headers: { 'retry-after': '1' },
});

const NONE: readonly string[] = [];

const PROBES: ReadonlySet<string> = new Set(['/live', '/health', '/ready', '/metrics']);

export async function createApp(options: AppOptions): Promise<App> {
  const { log, health } = options;
  // `loggedUrl` has removed the secrets of an address. The other fields have none.
  const requestLog = withoutRedaction(log);
  const inFlight = new InFlight();
  const nextId = requestIds();
  const clients = options.clients ?? new ClientReader({ trusted: () => NONE, dev: options.context.dev, log });
  const sample = options.logSample ?? 1;
  const maxInFlight = options.maxInFlight ?? (() => Number.POSITIVE_INFINITY);
  const answers = options.responseBudget ? new AnswerBudget(options.responseBudget) : undefined;
  const browserKeys = new BrowserKeyWatch(log);
  const early = earlyRefusal({ log, mounts: options.mounts, cors: options.cors, nextId, inFlight });
  const server = fastify({
    // Fastify's request lines would repeat ours, and its body limit would ignore the file.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: Number.MAX_SAFE_INTEGER,
    // Metadata of uploads is sent in a header. The default of 16 KB would reject it before any route reads
    // it.
    http: {
      maxHeaderSize: 64 * 1024,
      connectionsCheckingInterval: CHECK_CONNECTIONS_MS,
      shouldUpgradeCallback: (request) =>
        options.sockets !== undefined && requestsSocket(request, options.sockets.path),
    },
    // Longer than the 60 s of common balancers, so that a balancer does not reuse a connection that is being
    // closed.
    keepAliveTimeout: 75_000,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    requestIdHeader: false,
    rewriteUrl: ({ url = '' }) => originForm(url),
    genReqId: (request) => acceptedId(request.headers['x-request-id']) ?? nextId(),
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 2048 },
    // A URL that cannot be routed, such as one with broken percent-encoding, belongs to no feature.
    frameworkErrors: (error, request, reply) => {
      const problem = new Problem('bad_request', 400, error.message, {
        hint: 'Percent-encode the URL again: each % must be followed by two hexadecimal digits, and the bytes must be UTF-8.',
      });
      const { status, headers, body } = early.errorFormat(request.raw.url)(problem, request.id);
      reply.hijack();
      reply.raw.writeHead(status, {
        'content-type': 'application/json; charset=utf-8',
        ...headers,
        'content-length': Buffer.byteLength(body),
        'x-request-id': request.id,
        ...corsHeaders(request.headers.origin, options.cors()),
      });
      reply.raw.end(body);
      if (!request.raw.complete) dropRest(request.raw);
      const { id: requestId, method, url } = request;
      log.info({ requestId, method, url: loggedUrl(url), status, ...refusalFields(problem) }, 'request');
    },
    clientErrorHandler: early.onClientError,
  });
  if (options.sockets) {
    const refusal = (): Problem | undefined => (health.phase() === 'serving' ? health.refusal?.() : STARTING);
    server.server.on(
      'upgrade',
      onUpgrade({ ...options.sockets, refusal, clients, nextId, log, browserKeys }),
    );
  }
  server.server.on('connect', (_request: IncomingMessage, socket: Duplex) => early.onConnect(socket));
  // Every method reaches its feature, which knows its methods. `hasBody: false`: Fastify must not parse
  // bodies.
  for (const method of METHODS) {
    if (method !== 'CONNECT' && (method === 'QUERY' || !server.supportedMethods.includes(method))) {
      server.addHttpMethod(method, { hasBody: false, overrideExisting: true });
    }
  }

  server.decorateRequest('scope');
  server.decorateRequest('client');
  passBodyThrough(server);

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
    if (options.endsConnections?.() === true) reply.raw.setHeader('Connection', 'close');
    deadlines.watch(scope, request, reply);
    reply.raw.once('close', () => {
      inFlight.delete(scope);
      scope.answer?.release();
      if (!reply.raw.writableFinished) scope.abort('client-gone');
    });
    if (applyCors(request, reply, options.cors())) return;
    // Passed as an error, so that the API renders it in its format.
    const refusal = health.phase() === 'starting' ? STARTING : health.refusal?.();
    if (PROBES.has(request.url)) done();
    else if (refusal) done(refusal);
    else if (config.reserved !== true && !inFlight.hasRoomFor(scope, maxInFlight())) done(overloaded());
    else done();
  });

  const deadlines = new Deadlines(inFlight, server.server, options.timeouts, log);
  server.addHook('onClose', (_server, done) => {
    deadlines.close();
    done();
  });

  server.addHook('onSend', (request, reply, _payload, done) => {
    if (request.routeOptions.config.writesHead === true) reply.header('x-request-id', request.id);
    varyByOrigin(reply);
    if (endsWithAnswer(request, reply.statusCode)) {
      reply.header('connection', 'close');
      closeAfterRest(request.raw);
    }
    done();
  });

  server.addHook('onResponse', (request, reply, done) => {
    const { statusCode } = reply;
    if (request.headers.origin !== undefined && statusCode < 400)
      browserKeys.check(request.headers, request.url.split('?', 2)[1] ?? '');
    if (!request.raw.complete) dropRest(request.raw);
    const level = logLevel(request, statusCode);
    // A forwarded request is counted by the process that answers it.
    if (!request.scope.handedOn) options.requestMetrics?.observe(request, reply);
    if (request.scope.handedOn || !log.isLevelEnabled(level)) {
      done();
      return;
    }
    if (statusCode >= 400 || sample === 1 || Math.random() < sample) {
      requestLog[level](requestLine(request, reply, options.logUsers), 'request');
    }
    done();
  });

  server.setErrorHandler((error, request, reply) =>
    sendProblem(request, reply, toProblem(error, request, log)),
  );
  server.setNotFoundHandler((request, reply) => {
    const problem = new Problem(
      'not_found',
      404,
      `No such path: ${loggedUrl(request.url).split('?')[0] ?? ''}`,
      {
        hint: 'The APIs are under /rest/v1, /auth/v1, /storage/v1, /functions/v1 and /realtime/v1.',
      },
    );
    sendProblem(request, reply, problem);
  });

  // Redirects a browser that opens the URL of `svc dev` to the dashboard.
  if (options.context.dev) {
    server.get('/', (request, reply) => {
      if (request.headers.accept?.includes('text/html') === true) reply.redirect('/dashboard/');
      else reply.callNotFound();
    });
  }

  registerHealth(server, health);
  registerDescription(server, options.context);
  options.addRoutes?.(server);
  for (const { prefix, feature } of options.mounts) {
    await server.register(feature(options.context), { prefix });
  }
  await server.ready();
  return { server, inFlight };
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

function toProblem(error: unknown, { id: requestId, routeOptions }: FastifyRequest, log: Log): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof Abort && error.reason === 'slow-body') return bodyTooSlow();
  if (error instanceof Abort) {
    return new Problem('request_timeout', 504, 'The request took too long', {
      hint: 'server.timeouts.request in svc.yaml is the limit.',
    });
  }
  const failure = databaseFailure(error);
  if (failure) {
    log.error({ err: error, requestId, route: routeOptions.url }, failure.message);
    return failureProblem(failure, error);
  }
  const refusal = clientMistake(error);
  if (refusal) return refusal;
  log.error({ err: error, requestId, route: routeOptions.url }, 'fault');
  return new Problem('internal_error', 500, 'Internal server error', {
    hint: `Search the log for request id ${requestId}.`,
  });
}

function sendProblem(request: FastifyRequest, reply: FastifyReply, problem: Problem): void {
  request.scope.refusal = problem;
  void reply.code(problem.status).headers(problem.headers).send(toBody(problem));
}

/** Returns the problem for an error of the HTTP framework, such as an invalid Content-Type. */
function clientMistake(error: unknown): Problem | undefined {
  if (!(error instanceof Error) || !('statusCode' in error) || !('code' in error)) return undefined;
  const { statusCode, code, message } = error;
  if (typeof statusCode !== 'number' || statusCode < 400 || statusCode > 499) return undefined;
  if (typeof code !== 'string' || !code.startsWith('FST_')) return undefined;
  return new Problem('bad_request', statusCode, message, { hint: 'Correct the headers of the request.' });
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

/** Returns a caller's request id if it is safe to log and to send back. */
function acceptedId(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' && /^[\w.:-]{1,64}$/.test(header) ? header : undefined;
}
