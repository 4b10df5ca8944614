// Whether a request comes from the dashboard's own page, and whether it comes from this very machine. Browsers
// send `Origin` with every change, and a page cannot set it.
import type { FastifyRequest } from 'fastify';
import { isLoopback } from '../../auth/rate-limit.ts';

const LOOPBACK_HOST = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/i;
/** Headers of proxies and tunnels: behind one, the peer's address is not that of the person. */
const FORWARDED = /^(?:forwarded|via|x-forwarded-.*|x-original-.*|x-.*-ip|.*-client-ip|cf-.*)$/;

/** The origin of the page that asks, when it is ours. `null`, a foreign one and none at all are not. */
export function ownOrigin(request: FastifyRequest, baseUrl: string | undefined): URL | undefined {
  const origin = parseOrigin(request.headers.origin);
  const { host } = request.headers;
  if (!origin) return undefined;
  const base = baseUrl === undefined ? undefined : new URL(baseUrl);
  if (base?.origin === origin.origin) return origin;
  // Plain http for a host that is served by https: somebody on the network in between.
  if (base?.host === origin.host || host === undefined) return undefined;
  return parseOrigin(`${origin.protocol}//${host}`)?.origin === origin.origin ? origin : undefined;
}

/**
 * Whether another site or another port of this host asks. From the latter SameSite cookies are sent, and even a GET may
 * do something, such as calling a function. For browsers without Sec-Fetch-Site the cookie alone must do.
 */
export function isForeignFetch({ headers }: FastifyRequest): boolean {
  const site = headers['sec-fetch-site'];
  return site !== undefined && site !== 'same-origin' && site !== 'none';
}

/**
 * Whether the request comes from this machine: from a loopback peer, for a loopback name (DNS rebinding would show
 * another name), and without a proxy.
 */
export function isLocal({ headers, ip, socket }: FastifyRequest): boolean {
  return (
    isLoopback(ip) &&
    isLoopback(socket.remoteAddress ?? '') &&
    LOOPBACK_HOST.test(headers.host ?? '') &&
    !Object.keys(headers).some((name) => FORWARDED.test(name))
  );
}

function parseOrigin(text: string | undefined): URL | undefined {
  if (text === undefined || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  return url.protocol === 'http:' || url.protocol === 'https:' ? url : undefined;
}
