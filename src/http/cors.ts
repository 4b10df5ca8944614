// Cross-origin rules for every API. Only the origins are configurable; the rest is fixed by what the client
// libraries send and read (a browser shows `count` as null when Content-Range is not exposed).
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
    /** False for routes that no other origin may read, whatever the file allows. */
    cors?: false;
  }
}

/** True when the request was a preflight and is answered. */
export function applyCors(request: FastifyRequest, reply: FastifyReply, policy: CorsPolicy): boolean {
  if (request.routeOptions.config.cors === false) return false;
  const { origin } = request.headers;
  const preflight =
    request.method === 'OPTIONS' && request.headers['access-control-request-method'] !== undefined;
  if (origin === undefined) return false;
  const allowed = allowedOrigin(origin, policy);
  if (allowed === undefined) {
    if (!preflight) return false;
    // No Access-Control headers: the browser refuses. The answer itself is not an error.
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

/** Caches must tell origins apart wherever the answer names one; features set `Vary` for reasons of their own. */
export function varyByOrigin(reply: FastifyReply): void {
  if (!namesOrigin(reply.raw)) return;
  const vary = reply.getHeader('vary');
  reply.header('vary', vary === undefined ? 'Origin' : `${String(vary)}, Origin`);
}

/** The same for a feature that writes its head itself. */
export function addVaryByOrigin(raw: ServerResponse, headers: Record<string, string | string[]>): void {
  if (!namesOrigin(raw)) return;
  const { vary } = headers;
  headers['vary'] = vary === undefined ? 'Origin' : `${String(vary)}, Origin`;
}

function namesOrigin(raw: ServerResponse): boolean {
  return raw.hasHeader('Access-Control-Allow-Credentials');
}

/** What an answer says to a page of this origin; undefined when it may not read it. */
export function allowedOrigin(origin: string, policy: CorsPolicy): string | undefined {
  if (policy.origins.includes('*')) return '*';
  if (policy.origins.some((one) => normalise(one) === normalise(origin))) return origin;
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
