// Serves the APIs as a chosen caller under `/dashboard/api/as/<caller>/…`. The request is routed again in this server
// under the API's path, with credentials that are created here and never sent to the page.
import type { IncomingMessage, OutgoingHttpHeader, ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { markDashboardRead } from '../../http/request-scope.ts';
import { callerToken } from '../session/caller.ts';
import type { CallerName } from '../contract.ts';
import type { DashboardContext } from '../dashboard-context.ts';
import { badPath, readOnly } from '../problem.ts';
import { baseUrlFor } from '../request.ts';

const UUID = '[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}';
/** Matched against the raw URL, because the server routes by it. */
const TARGET_PATTERN = new RegExp(
  `^/dashboard/api/as/(?:(service|anon)|user(?::|%3[aA])(${UUID}))(/(rest|auth|storage|functions)/v1(?:[/?].*)?)$`,
);
/** Segments and characters that could be interpreted as a path outside the API. */
const AMBIGUOUS_PATH = /\/\/|\\|%(?:2f|5c|00)|\/(?:\.|%2e){1,2}(?:\/|$)/i;

/** GET routes of `/auth/v1` without effects. The others consume tokens or start a sign-in. */
const AUTH_READS = /^\/auth\/v1\/(?:admin\/[\w/-]+|settings|health|\.well-known\/[\w.-]+)$/;
/** Routes that read with POST. */
const POSTED_READS = /^\/storage\/v1\/object\/list(?:-v2)?\/[^/]+$/;

/** Headers for the dashboard, or set by the browser about the page. They are not forwarded to the API. */
const PAGE_HEADERS = /^(?:cookie|x-svc-csrf|origin|referer|sec-.*|apikey|authorization|x-request-id)$/;

/**
 * Overrides for responses. Content from storage and functions is not trusted: in a sandbox without an origin it runs
 * no scripts and cannot reach the dashboard's session.
 */
const ANSWER_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy':
    "sandbox; default-src 'none'; img-src 'self' data:; media-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'x-frame-options': 'SAMEORIGIN',
};
/** Response headers that would affect the dashboard's origin. */
const REFUSED_HEADERS: ReadonlySet<string> = new Set([
  'set-cookie',
  'clear-site-data',
  'service-worker-allowed',
  'refresh',
  'x-frame-options',
]);

type Target = {
  readonly caller: CallerName;
  readonly api: string;
  /** Path of the API, with the query. */
  readonly url: string;
};

export function actAsRoutes(app: FastifyInstance, context: DashboardContext): void {
  const config = { deadline: 'none' as const };
  app.all('/as/*', { config }, async (request, reply) => {
    const target = parseTarget(request.raw.url ?? '');
    const isReading = isRead(request.method, target);
    if (context.mode !== 'readwrite' && !isReading) throw readOnly();
    if (isReading) markDashboardRead(request.raw);
    const token = await callerToken(context, target.caller, baseUrlFor(request, context));
    reply.hijack();
    request.scope.handedOn = true;
    rewriteRequest(request, target.url, {
      apikey: context.keys.publishable,
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      'x-request-id': request.id,
    });
    overrideHeaders(reply.raw, target.api);
    app.routing(request.raw, reply.raw);
  });
}

function parseTarget(url: string): Target {
  const match = TARGET_PATTERN.exec(url);
  const [, role, userId, target = '', api = ''] = match ?? [];
  if (!match || AMBIGUOUS_PATH.test(withoutQuery(target))) {
    throw badPath(
      'It must be /as/<service, anon or user:uuid>/<rest, auth, storage or functions>/v1/…, ' +
        'without dots and encoded slashes',
    );
  }
  const named = role === 'service' ? 'service' : 'anon';
  const caller: CallerName = userId === undefined ? named : `user:${userId.toLowerCase()}`;
  return { caller, api, url: target };
}

/**
 * Returns whether the request changes nothing, so that a read-only dashboard may send it. A GET of `/rest/v1/rpc`
 * counts as a read, because PostgreSQL runs it in a read-only transaction.
 */
function isRead(method: string, { api, url }: Target): boolean {
  const path = withoutQuery(url);
  if (api === 'functions') return false;
  if (method === 'POST') return POSTED_READS.test(path);
  if (method !== 'GET' && method !== 'HEAD') return false;
  return api !== 'auth' || AUTH_READS.test(path);
}

function withoutQuery(url: string): string {
  return url.split('?', 1)[0] ?? '';
}

/** Changes both `headers` and `rawHeaders`, because features read either. */
function rewriteRequest(request: FastifyRequest, url: string, own: Readonly<Record<string, string>>): void {
  const { raw }: { raw: IncomingMessage } = request;
  const kept: string[] = [];
  for (let at = 0; at + 1 < raw.rawHeaders.length; at += 2) {
    const name = raw.rawHeaders[at] ?? '';
    if (!PAGE_HEADERS.test(name.toLowerCase())) kept.push(name, raw.rawHeaders[at + 1] ?? '');
  }
  for (const name of Object.keys(raw.headers)) if (PAGE_HEADERS.test(name)) delete raw.headers[name];
  Object.assign(raw.headers, own);
  raw.rawHeaders = [...kept, ...Object.entries(own).flat()];
  raw.url = url;
}

/** Overrides headers of the response. All writes end in `writeHead`, so the overrides are applied last. */
function overrideHeaders(answer: ServerResponse, api: string): void {
  const writeHead = answer.writeHead.bind(answer);
  const forced = {
    ...ANSWER_HEADERS,
    // Private even for public buckets, because the URL belongs to the visitor. Clients may revalidate objects by
    // ETag.
    'cache-control': api === 'storage' ? 'private, no-cache' : 'no-store',
  };
  answer.writeHead = (status: number, ...rest: unknown[]): ServerResponse => {
    const [first, second] = rest;
    for (const [name, value] of headerEntries(typeof first === 'string' ? second : first)) {
      answer.setHeader(name, value);
    }
    for (const name of REFUSED_HEADERS) answer.removeHeader(name);
    for (const [name, value] of Object.entries(forced)) answer.setHeader(name, value);
    return typeof first === 'string' ? writeHead(status, first) : writeHead(status);
  };
}

/** Node accepts headers as an object, or as an array of alternating names and values. */
function headerEntries(headers: unknown): Array<[string, OutgoingHttpHeader]> {
  if (typeof headers !== 'object' || headers === null) return [];
  if (!Array.isArray(headers)) {
    const entries = Object.entries(headers as Record<string, OutgoingHttpHeader | undefined>);
    return entries.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]));
  }
  const found = new Map<string, string[]>();
  const flat: unknown[] = headers.flat();
  for (let at = 0; at + 1 < flat.length; at += 2) {
    const name = String(flat[at]);
    found.set(name, [...(found.get(name) ?? []), String(flat[at + 1])]);
  }
  return [...found];
}
