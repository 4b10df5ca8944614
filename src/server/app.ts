// The HTTP application: what every request passes before and after its feature. Composition only; no route of
// an API is defined here.
import { randomUUID } from 'node:crypto';
import { METHODS } from 'node:http';
import fastify, {
  LogController,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify';
import { AnswerBudget } from '../http/answer-budget.ts';
import { bodyTooSlow, passBodyThrough } from '../http/body.ts';
import { ClientReader } from '../http/client.ts';
import { applyCors, varyByOrigin, type CorsPolicy } from '../http/cors.ts';
import type { FeatureContext, Mount } from '../http/feature.ts';
import { toBody } from '../http/refusal-format.ts';
import { RequestScope } from '../http/request-scope.ts';
import { takeTraceId } from '../http/trace-context.ts';
import type { Log } from '../log/log.ts';
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
import { dropRest } from './request-path/rest-of-request.ts';
import { asksForSocket, onUpgrade, type UpgradeOptions } from './upgrade.ts';

export type AppOptions = {
  readonly log: Log;
  readonly health: HealthState;
  readonly mounts: readonly Mount[];
  readonly context: FeatureContext;
  /** Read at every request, so that a reload of the file takes effect at once. */
  readonly cors: () => CorsPolicy;
  readonly timeouts: () => Timeouts;
  /** Trusts no proxy when absent. */
  readonly clients?: ClientReader;
  /** Most requests answered at once; default: any number. */
  readonly maxInFlight?: () => number;
  /** Most bytes of answers that are built and not yet taken; default: any number. */
  readonly responseBudget?: () => number;
  /** Where sockets are opened; none when absent. */
  readonly sockets?: Pick<UpgradeOptions, 'path' | 'accept' | 'format'>;
  /** Answers end their connections: the process takes no more of them. */
  readonly endsConnections?: () => boolean;
  /** The share of requests below 400 that get a line in the log; default 1, all of them. */
  readonly logSample?: number;
  /** Lines of requests name users by their ids. */
  readonly logUsers?: boolean;
  /** What counts answers, if anything does. */
  readonly requestMetrics?: RequestMetrics | undefined;
  /** Adds routes beside those of the APIs. */
  readonly also?: ((server: FastifyInstance) => void) | undefined;
};

export type App = {
  readonly server: FastifyInstance;
  /** Requests being answered now. */
  readonly inFlight: InFlight;
};

/** How often the parser looks for what is late. */
const CHECK_CONNECTIONS_MS = 1_000;

const STARTING = new Problem('starting', 503, 'The service is starting', {
  hint: 'Try again in a moment.',
  headers: { 'retry-after': '1' },
});

const NONE: readonly string[] = [];

const PROBES: ReadonlySet<string> = new Set(['/live', '/health', '/ready', '/metrics']);

export async function createApp(options: AppOptions): Promise<App> {
  const { log, health } = options;
  const inFlight = new InFlight();
  const nextId = requestIds();
  const clients = options.clients ?? new ClientReader({ trusted: () => NONE, dev: options.context.dev, log });
  const sample = options.logSample ?? 1;
  const maxInFlight = options.maxInFlight ?? (() => Number.POSITIVE_INFINITY);
  const answers = options.responseBudget ? new AnswerBudget(options.responseBudget) : undefined;
  const early = earlyRefusal({ log, mounts: options.mounts, cors: options.cors, nextId, inFlight });
  const server = fastify({
    // Fastify's own request lines would repeat ours, and its limits would ignore the file.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: Number.MAX_SAFE_INTEGER,
    // Metadata of uploads travels in a header; the default of 16 KB would refuse it before any route sees it.
    http: {
      maxHeaderSize: 64 * 1024,
      connectionsCheckingInterval: CHECK_CONNECTIONS_MS,
      shouldUpgradeCallback: (request) =>
        options.sockets !== undefined && asksForSocket(request, options.sockets.path),
    },
    // Longer than the 60 s of common balancers, so that none sends a request on a connection that just ends.
    keepAliveTimeout: 75_000,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    requestIdHeader: false,
    genReqId: (request) => acceptedId(request.headers['x-request-id']) ?? nextId(),
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 2048 },
    // A URL that cannot even be routed (broken percent-encoding) belongs to no feature.
    frameworkErrors: (error, request, reply) => {
      const problem = new Problem('bad_request', 400, error.message, {
        hint: 'Each % in a URL begins two hexadecimal digits, and together they are UTF-8: encode it again.',
      });
      const { status, headers, body } = early.formatOf(request.raw.url)(problem, request.id);
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
    server.server.on('upgrade', onUpgrade({ ...options.sockets, refusal, clients, nextId, log }));
  }
  // Every method reaches its feature, which knows the ones it has; without a body to be read by its type.
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
    scope.answers = answers;
    scope.writtenBefore = request.raw.socket.bytesWritten;
    scope.traceId = takeTraceId(request.raw);
    request.scope = scope;
    inFlight.add(scope);
    const { config } = request.routeOptions;
    if (config.writesHead !== true) reply.raw.setHeader('X-Request-Id', request.id);
    // A kept-alive connection would hold the shutdown up until its client lets go of it.
    if (options.endsConnections?.() === true) reply.raw.setHeader('Connection', 'close');
    deadlines.watch(scope, request, reply);
    reply.raw.once('close', () => {
      inFlight.delete(scope);
      scope.answer?.release();
      if (!reply.raw.writableFinished) scope.abort('client-gone');
    });
    if (applyCors(request, reply, options.cors())) return;
    // As an error, so that it is answered in the dialect of the API that was asked.
    const refusal = health.phase() === 'starting' ? STARTING : health.refusal?.();
    if (PROBES.has(request.url)) done();
    else if (refusal) done(refusal);
    else if (inFlight.size > maxInFlight() && config.reserved !== true) done(overloaded());
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
    done();
  });

  server.addHook('onResponse', (request, reply, done) => {
    const { statusCode } = reply;
    if (!request.raw.complete) dropRest(request.raw);
    const level = levelOf(request, statusCode);
    // A request that was handed on is counted where it is answered.
    if (!request.scope.handedOn) options.requestMetrics?.observe(request, reply);
    if (request.scope.handedOn || !log.isLevelEnabled(level)) {
      done();
      return;
    }
    if (statusCode >= 400 || sample === 1 || Math.random() < sample) {
      log[level](requestLine(request, reply, options.logUsers), 'request');
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

  // Whoever opens the address of `svc dev` in a browser looks for something to see.
  if (options.context.dev) server.get('/', (_request, reply) => reply.redirect('/dashboard/'));

  registerHealth(server, health);
  registerDescription(server, options.context);
  options.also?.(server);
  for (const { prefix, feature } of options.mounts) {
    await server.register(feature(options.context), { prefix });
  }
  await server.ready();
  return { server, inFlight };
}

function levelOf(request: FastifyRequest, status: number): 'debug' | 'info' | 'error' {
  if (PROBES.has(request.url)) return 'debug';
  // Nobody got the answer, so it is no failure of ours, whatever it says.
  if (request.scope.aborted === 'client-gone') return 'info';
  if (status >= 500) return 'error';
  // A browser asks before each of its requests; the request itself has its line.
  if (request.method === 'OPTIONS' && status < 400) return 'debug';
  return request.routeOptions.config.routine === true && status < 400 ? 'debug' : 'info';
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
    hint: `The log has more under request id ${requestId}.`,
  });
}

function sendProblem(request: FastifyRequest, reply: FastifyReply, problem: Problem): void {
  request.scope.refusal = problem;
  void reply.code(problem.status).headers(problem.headers).send(toBody(problem));
}

/** What the HTTP framework itself refuses, a Content-Type that is none for example. */
function clientMistake(error: unknown): Problem | undefined {
  if (!(error instanceof Error) || !('statusCode' in error) || !('code' in error)) return undefined;
  const { statusCode, code, message } = error;
  if (typeof statusCode !== 'number' || statusCode < 400 || statusCode > 499) return undefined;
  if (typeof code !== 'string' || !code.startsWith('FST_')) return undefined;
  return new Problem('bad_request', statusCode, message, { hint: 'Correct the headers of the request.' });
}

/** Random once for each process, and counted from there: unique among all instances, and no secret. */
function requestIds(): () => string {
  const process = randomUUID().slice(0, 24);
  let count = 0;
  return () => process + (count++).toString(16).padStart(12, '0');
}

/** A caller's request id is kept when it is safe to log and to send back. */
function acceptedId(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' && /^[\w.:-]{1,64}$/.test(header) ? header : undefined;
}
