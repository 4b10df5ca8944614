// The HTTP server under the application: limits of the parser, methods, and responses to what cannot be routed.
import { METHODS, type IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import fastify, {
  LogController,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify';
import { passBodyThrough } from '../../http/body.ts';
import type { CorsPolicy } from '../../http/cors.ts';
import { originForm } from '../../http/request-target.ts';
import type { Log } from '../../log/log.ts';
import { Problem } from '../../problem/problem.ts';
import { loggedUrl } from '../logged-url.ts';
import { corsHeaders, type EarlyRefusal } from './early-refusal.ts';
import { refusalFields } from './request-line.ts';
import { dropRest } from './rest-of-request.ts';

/** Interval at which the parser checks for connections that are late. */
const CHECK_CONNECTIONS_MS = 1_000;

export type HttpServerOptions = {
  readonly log: Log;
  readonly early: EarlyRefusal;
  readonly cors: () => CorsPolicy;
  readonly nextId: () => string;
  /** Whether a request may become a socket. Undefined: no sockets. */
  readonly upgrades: ((request: IncomingMessage) => boolean) | undefined;
};

export function createHttpServer(options: HttpServerOptions): FastifyInstance {
  const { early, nextId, upgrades } = options;
  const server = fastify({
    // Fastify's request lines would repeat ours, and its body limit would ignore the file.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: Number.MAX_SAFE_INTEGER,
    // Metadata of uploads is sent in a header. The default of 16 KB would reject it before any route reads it.
    http: {
      maxHeaderSize: 64 * 1024,
      connectionsCheckingInterval: CHECK_CONNECTIONS_MS,
      shouldUpgradeCallback: (request) => upgrades?.(request) === true,
    },
    // Longer than the 60 s of common balancers, so that a balancer does not reuse a connection that is being closed.
    keepAliveTimeout: 75_000,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    requestIdHeader: false,
    rewriteUrl: ({ url = '' }) => originForm(url),
    genReqId: (request) => acceptedId(request.headers['x-request-id']) ?? nextId(),
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 2048 },
    frameworkErrors: (error, request, reply) => refuseUnroutable(options, { error, request, reply }),
    clientErrorHandler: early.onClientError,
  });
  server.server.on('connect', (_request: IncomingMessage, socket: Duplex) => early.onConnect(socket));
  // Every method reaches its feature, which knows its methods. `hasBody: false`: Fastify must not parse bodies.
  for (const method of METHODS) {
    if (method !== 'CONNECT' && (method === 'QUERY' || !server.supportedMethods.includes(method))) {
      server.addHttpMethod(method, { hasBody: false, overrideExisting: true });
    }
  }
  server.decorateRequest('scope');
  server.decorateRequest('client');
  passBodyThrough(server);
  return server;
}

/** A URL that cannot be routed, such as one with broken percent-encoding, belongs to no feature. */
function refuseUnroutable(
  { log, early, cors }: HttpServerOptions,
  at: { readonly error: FastifyError; readonly request: FastifyRequest; readonly reply: FastifyReply },
): void {
  const { error, request, reply } = at;
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
    ...corsHeaders(request.headers.origin, cors()),
  });
  reply.raw.end(body);
  if (!request.raw.complete) dropRest(request.raw);
  const { id: requestId, method, url } = request;
  log.info({ requestId, method, url: loggedUrl(url), status, ...refusalFields(problem) }, 'request');
}

/** Returns a caller's request id if it is safe to log and to send back. */
function acceptedId(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' && /^[\w.:-]{1,64}$/.test(header) ? header : undefined;
}
