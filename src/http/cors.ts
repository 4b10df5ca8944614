// Cross-origin rules for every API. Only the origins are configurable. The rest follows the requirements of client
// libraries (a browser shows `count` as null unless Content-Range is exposed).
import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';

const CORS_METHODS = 'GET, POST, PATCH, PUT, DELETE, OPTIONS, HEAD';
const MAX_AGE_SECONDS = '86400';

const EXPOSED = [
  'Accept-Ranges',
  'Content-Disposition',
  'Content-Encoding',
  'Content-Length',
  'Content-Location',
  'Content-Range',
  'Content-Type',
  'Date',
  'ETag',
  'Link',
  'Location',
  'Preference-Applied',
  'Proxy-Status',
  'Range-Unit',
  'Retry-After',
  'Server',
  'Server-Timing',
  'Transfer-Encoding',
  'Tus-Complete',
  'Tus-Extension',
  'Tus-Max-Size',
  'Tus-Resumable',
  'Tus-Version',
  'Upload-Expires',
  'Upload-Length',
  'Upload-Metadata',
  'Upload-Offset',
  'WWW-Authenticate',
  'Warning',
  'X-Relay-Error',
  'X-Request-Id',
  'X-Supabase-Api-Version',
  'X-Svc-Staleness',
  'X-Total-Count',
  'X-Transformations',
].join(', ');

const ALWAYS_ALLOWED = [
  'accept',
  'accept-language',
  'accept-profile',
  'apikey',
  'authorization',
  'baggage',
  'cache-control',
  'content-language',
  'content-profile',
  'content-type',
  'prefer',
  'range',
  'range-unit',
  'traceparent',
  'tracestate',
  'x-client-info',
  'x-jwt-aud',
  'x-retry-count',
  'x-supabase-api-version',
  'x-upsert',
];

export type CorsPolicy = {
  /** Allowed origins; `['*']` allows all, an empty list none. */
  readonly origins: readonly string[];
  /** `svc dev`: pages served from this machine may call, whatever their port. */
  readonly allowLoopback: boolean;
};

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * False for routes that other origins can never read, regardless of the file. `handler`: the route responds to
     * preflights of unlisted origins.
     */
    cors?: false | 'handler';
  }
}

export function isPreflight({ method, headers }: FastifyRequest): boolean {
  return (
    method === 'OPTIONS' &&
    headers.origin !== undefined &&
    headers['access-control-request-method'] !== undefined
  );
}

/** Returns true if the request was a preflight and has its response. */
export function applyCors(request: FastifyRequest, reply: FastifyReply, policy: CorsPolicy): boolean {
  if (request.routeOptions.config.cors === false) return false;
  const { origin } = request.headers;
  const preflight = isPreflight(request);
  if (origin === undefined) return false;
  const allowed = allowedOrigin(origin, policy);
  if (allowed === undefined) {
    if (!preflight || request.routeOptions.config.cors === 'handler') return false;
    // Without Access-Control headers the browser rejects the request. The response itself is not an error.
    reply.code(200).send();
    return true;
  }
  const { raw } = reply;
  raw.setHeader('Access-Control-Allow-Origin', allowed);
  if (allowed !== '*') raw.setHeader('Access-Control-Allow-Credentials', 'true');
  if (!preflight) {
    raw.setHeader('Access-Control-Expose-Headers', EXPOSED);
    return false;
  }
  raw.setHeader('Access-Control-Allow-Methods', CORS_METHODS);
  raw.setHeader('Access-Control-Allow-Headers', allowedHeaders(request));
  raw.setHeader('Access-Control-Max-Age', MAX_AGE_SECONDS);
  reply.code(200).send();
  return true;
}

/** Adds `Origin` to `Vary` if the response names an origin. Features set further fields of `Vary`. */
export function varyByOrigin(reply: FastifyReply): void {
  if (!namesOrigin(reply.raw)) return;
  const vary = reply.getHeader('vary');
  reply.header('vary', vary === undefined ? 'Origin' : `${String(vary)}, Origin`);
}

/** Does the same for a feature that writes its head itself. */
export function addVaryByOrigin(raw: ServerResponse, headers: Record<string, string | string[]>): void {
  if (!namesOrigin(raw)) return;
  const { vary } = headers;
  headers['vary'] = vary === undefined ? 'Origin' : `${String(vary)}, Origin`;
}

/**
 * CORS headers for a response whose handler sets some itself. If the server names the origin, its headers apply: a
 * browser rejects `*` together with credentials, and two values for one header.
 */
export function withServerCors(raw: ServerResponse, headers: Record<string, string | string[]>): void {
  if (!namesOrigin(raw)) return;
  delete headers['access-control-allow-origin'];
  delete headers['access-control-allow-credentials'];
  const exposed = headers['access-control-expose-headers'];
  if (exposed !== undefined) headers['access-control-expose-headers'] = `${EXPOSED}, ${String(exposed)}`;
  addVaryByOrigin(raw, headers);
}

function namesOrigin(raw: ServerResponse): boolean {
  return raw.hasHeader('Access-Control-Allow-Credentials');
}

/**
 * Returns the value of Access-Control-Allow-Origin, or undefined if pages of this origin cannot read the response.
 */
export function allowedOrigin(origin: string, policy: CorsPolicy): string | undefined {
  if (policy.origins.includes('*')) return '*';
  if (policy.origins.some((allowed) => normalise(allowed) === normalise(origin))) return origin;
  return policy.allowLoopback && isLoopback(origin) ? origin : undefined;
}

function allowedHeaders(request: FastifyRequest): string {
  const requested = (request.headers['access-control-request-headers'] ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => /^[a-z0-9!#$%&'*+.^_`|~-]+$/.test(name));
  return [...new Set([...ALWAYS_ALLOWED, ...requested])].join(', ');
}

function normalise(origin: string): string {
  return origin.replace(/\/+$/, '').toLowerCase();
}

function isLoopback(origin: string): boolean {
  return /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/i.test(origin);
}
