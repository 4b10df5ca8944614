// Converts requests, responses and errors of `/auth/v1` between Fastify and the actions.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { bodyTooSlow, readBody } from '../../http/body.ts';
import { foreignCharset } from '../../http/charset.ts';
import type { Presented } from '../../identity/credentials.ts';
import type { Log } from '../../log/log.ts';
import { databaseFailure, isDatabaseError } from '../../postgres/pg-error.ts';
import { Abort, Problem } from '../../problem/problem.ts';
import type { AuthContext } from '../auth-context.ts';
import { Fields, NO_FIELDS, parseFormBody, parseJsonBody } from '../fields.ts';
import { problems, toWire, wireVersion } from '../problem.ts';
import type { AuthSettings } from '../settings.ts';
import type { Answer, AuthRequest } from './request.ts';

export async function readRequest(
  auth: AuthContext,
  request: FastifyRequest,
  presented: Presented,
): Promise<AuthRequest> {
  const { headers, method, url } = request;
  const settings = auth.settings();
  const isForm = /^application\/x-www-form-urlencoded\b/i.test(headers['content-type'] ?? '');
  const queryEntries = [...new URLSearchParams(url.includes('?') ? url.slice(url.indexOf('?') + 1) : '')];
  return {
    auth,
    settings,
    now: auth.now(),
    method,
    query: new Fields(Object.fromEntries(queryEntries)),
    body: method === 'GET' || method === 'HEAD' ? NO_FIELDS : await readFields(request, settings, isForm),
    path: toPath(request.params),
    presented,
    requestId: request.id,
    client: request.client,
    userAgent: headers['user-agent'],
    header: (name) => {
      const value = headers[name];
      return Array.isArray(value) ? value[0] : value;
    },
    queryEntries,
    authUrl: `${auth.baseUrl() ?? localBaseUrl(request)}/auth/v1`,
    isForm,
  };
}

/** Returns the `apikey` parameter of a GET: a link cannot send its key any other way. */
export function queryKey({ method, query }: FastifyRequest): string | undefined {
  if (method !== 'GET' || typeof query !== 'object' || query === null || !('apikey' in query))
    return undefined;
  return typeof query.apikey === 'string' ? query.apikey : undefined;
}

async function readFields(request: FastifyRequest, settings: AuthSettings, isForm: boolean): Promise<Fields> {
  const { maxBodyBytes } = settings;
  const charset = foreignCharset(request.headers['content-type']);
  if (charset !== undefined) throw problems.unsupportedCharset(charset);
  const length = request.headers['content-length'];
  const bytes = await readBody(request.body, maxBodyBytes, length).catch((error: unknown) => {
    const isTooLarge = error instanceof Problem && error.code === 'body_too_large';
    throw isTooLarge ? problems.bodyTooLarge(maxBodyBytes) : error;
  });
  return isForm ? parseFormBody(bytes) : parseJsonBody(bytes);
}

function toPath(params: unknown): Record<string, string> {
  if (typeof params !== 'object' || params === null) return {};
  return Object.fromEntries(Object.entries(params).map(([name, value]) => [name, String(value)]));
}

/**
 * Returns the base URL if none is configured, as in development. Uses the Host header only if it names this
 * machine:
 * otherwise an attacker could choose the host of the links in mails.
 */
export function localBaseUrl(request: FastifyRequest): string {
  const host = request.headers.host ?? '';
  if (/^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/i.test(host)) return `http://${host.toLowerCase()}`;
  return `http://localhost:${request.socket.localPort ?? 8080}`;
}

export function sendAnswer(reply: FastifyReply, answer: Answer): FastifyReply {
  // Almost every response contains tokens, links or personal data. The few public ones override these
  // headers.
  reply.headers({
    'cache-control': 'no-store',
    pragma: 'no-cache',
    'x-content-type-options': 'nosniff',
    ...answer.headers,
  });
  reply.code(answer.status);
  if (answer.html !== undefined) return reply.type('text/html; charset=utf-8').send(answer.html);
  if (answer.body === undefined) return reply.send();
  return reply.type('application/json; charset=utf-8').send(JSON.stringify(answer.body));
}

type RouteName = readonly [methods: string | readonly string[], url: string, ...unknown[]];

export function addErrorHandlers(app: FastifyInstance, log: Log, routes: readonly RouteName[]): void {
  app.setErrorHandler((error, request, reply) => {
    sendProblem(reply, request, toProblem(error, log, request));
  });
  app.setNotFoundHandler((request, reply) => {
    const path = (request.url.split('?')[0] ?? '').replace(/^\/auth\/v1/, '');
    const methods = new Set(routes.filter(([, url]) => matches(url, path)).flatMap(([methods]) => methods));
    const problem =
      methods.size > 0 ? problems.methodNotAllowed([...methods].join(', ')) : problems.routeNotFound();
    sendProblem(reply, request, problem);
  });
}

function matches(pattern: string, path: string): boolean {
  const [expected, actual] = [pattern.split('/'), path.replace(/\/$/, '').split('/')];
  return (
    expected.length === actual.length &&
    expected.every((part, index) => part.startsWith(':') || part === actual[index])
  );
}

function sendProblem(reply: FastifyReply, request: FastifyRequest, problem: Problem): void {
  request.scope.refusal = problem;
  const version = wireVersion(request.headers['x-supabase-api-version']);
  sendAnswer(reply, {
    status: problem.status,
    body: toWire(problem, version, request.id),
    headers: {
      ...problem.headers,
      'x-sb-error-code': problem.code,
      // Clients read the code only when the version is echoed.
      ...(version === 'initial' ? {} : { 'x-supabase-api-version': version }),
    },
  });
}

function toProblem(error: unknown, log: Log, request: FastifyRequest): Problem {
  if (error instanceof Problem) {
    if (isDatabaseError(error.cause)) log.error({ err: error.cause, requestId: request.id }, error.message);
    return error;
  }
  if (error instanceof Abort) return error.reason === 'slow-body' ? bodyTooSlow() : problems.requestTimeout();
  // A 4xx of Fastify: it could not read a URL or a header.
  const status = error instanceof Error && 'statusCode' in error ? error.statusCode : undefined;
  if (typeof status === 'number' && status < 500) {
    return new Problem('validation_failed', status, error instanceof Error ? error.message : '');
  }
  // A 503, never a 4xx: clients sign their user out on a 4xx.
  const failure = databaseFailure(error);
  const isKnown = failure !== undefined && failure.status !== 500;
  log.error(
    { err: error, requestId: request.id, route: request.routeOptions.url },
    isKnown ? failure.message : 'fault',
  );
  return isKnown ? problems.databaseUnavailable(failure, error) : problems.unexpectedFailure();
}
