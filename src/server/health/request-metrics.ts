// Metrics of responses. Labels are methods, routes, statuses and names in the file, never content of a
// request.
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Counter, Histogram, Metrics } from '../../log/metrics.ts';

/** Bucket bounds in seconds, from the OpenTelemetry conventions for HTTP. */
const BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);
const AUTH = '/auth/v1/';
/** Account actions, keyed by method and route below `/auth/v1/`. */
const AUTH_ACTIONS: Readonly<Record<string, string>> = {
  'POST signup': 'signup',
  'POST otp': 'otp',
  'POST magiclink': 'otp',
  'GET verify': 'verify',
  'POST verify': 'verify',
  'POST recover': 'recover',
  'POST resend': 'resend',
  'POST logout': 'logout',
  'PUT user': 'user_update',
  'GET authorize': 'oauth_begin',
  'GET callback': 'oauth_end',
  'POST callback': 'oauth_end',
  'GET callback/:provider': 'oauth_end',
  'POST callback/:provider': 'oauth_end',
  'POST factors': 'factor_enroll',
  'POST factors/:id/challenge': 'factor_challenge',
  'POST factors/:id/verify': 'factor_verify',
  'POST invite': 'invite',
};
const GRANTS: ReadonlySet<unknown> = new Set(['password', 'refresh_token', 'pkce', 'id_token']);

export class RequestMetrics {
  readonly #durations: Histogram;
  readonly #refusals: Counter;
  readonly #functions: Histogram;
  readonly #auth: Counter;
  readonly #stored: Counter;

  constructor(metrics: Metrics) {
    this.#durations = metrics.histogram(
      'http_server_request_duration_seconds',
      'Duration of requests.',
      BOUNDS,
    );
    this.#refusals = metrics.counter('svc_refusals_total', 'Refused requests, by error code.');
    this.#functions = metrics.histogram(
      'svc_functions_duration_seconds',
      'Duration of calls of code functions.',
      BOUNDS,
    );
    this.#auth = metrics.counter('svc_auth_events_total', 'Account actions, by result.');
    this.#stored = metrics.counter(
      'svc_storage_bytes_total',
      'Bytes of stored files that were received and sent.',
    );
  }

  /** Records a finished response. */
  observe(request: FastifyRequest, { statusCode, elapsedTime }: FastifyReply): void {
    const method = METHODS.has(request.method) ? request.method : '_OTHER';
    const { url: route = '{other}' } = request.routeOptions;
    const status = String(statusCode);
    const seconds = elapsedTime / 1_000;
    const { refusal, functionName, bucket } = request.scope;
    this.#durations.observe(`${method} ${status} ${route}`, seconds, () => ({
      http_request_method: method,
      http_route: route,
      http_response_status_code: status,
    }));
    if (statusCode >= 400 && refusal) {
      const { code } = refusal;
      this.#refusals.add(`${status} ${code}`, () => ({ code, http_response_status_code: status }));
    }
    if (functionName !== undefined) {
      const result = requestResult(statusCode);
      this.#functions.observe(`${result} ${functionName}`, seconds, () => ({
        function: functionName,
        result,
      }));
    }
    if (bucket !== undefined) this.#countBytes(request, bucket);
    if (route.startsWith(AUTH)) this.#countAuth(request, route.slice(AUTH.length), statusCode);
  }

  #countAuth({ method, query }: FastifyRequest, route: string, status: number): void {
    const action = route === 'token' ? tokenAction(query) : AUTH_ACTIONS[`${method} ${route}`];
    if (action === undefined) return;
    const result = status === 429 ? 'limited' : requestResult(status);
    this.#auth.add(`${action} ${result}`, () => ({ action, result }));
  }

  #countBytes({ method, scope, raw }: FastifyRequest, bucket: string): void {
    const out = method === 'GET' ? raw.socket.bytesWritten - scope.writtenBefore : 0;
    for (const [direction, bytes] of [
      ['in', scope.received],
      ['out', out],
    ] as const) {
      if (bytes > 0) this.#stored.add(`${direction} ${bucket}`, () => ({ bucket, direction }), bytes);
    }
  }
}

/** Returns the result. Links in mails end with redirects, whose URL contains the outcome. */
function requestResult(status: number): 'ok' | 'redirected' | 'refused' | 'fault' {
  if (status >= 500) return 'fault';
  if (status >= 400) return 'refused';
  return status >= 300 ? 'redirected' : 'ok';
}

function tokenAction(query: unknown): string {
  const grant = typeof query === 'object' && query && 'grant_type' in query ? query.grant_type : undefined;
  return GRANTS.has(grant) ? `token_${String(grant)}` : 'token_other';
}
