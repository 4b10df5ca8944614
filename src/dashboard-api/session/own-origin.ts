// Whether a request comes from the dashboard's own page, and whether it comes from this very machine. Browsers
// send `Origin` with whatever changes something, and a page cannot choose it.
import type { FastifyRequest } from 'fastify';
import { isLoopback } from '../../auth/rate-limit.ts';

const LOOPBACK_HOST = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/i;
/** What proxies and tunnels add: behind one of them, the peer's address says nothing about the person. */
const FORWARDED = /^(?:forwarded|via|x-forwarded-.*|x-original-.*|x-.*-ip|.*-client-ip|cf-.*)$/;

/** The origin of the page that asks, when it is ours. `null`, a foreign one and none at all are not. */
export function ownOrigin(request: FastifyRequest, baseUrl: string | undefined): URL | undefined {
  const origin = parseOrigin(request.headers.origin);
  const { host } = request.headers;
  if (!origin) return undefined;
  const base = baseUrl === undefined ? undefined : new URL(baseUrl);
  if (base?.origin === origin.origin) return origin;
  // Plain http of a host that is served by https is whoever sits on the network in between.
  if (base?.host === origin.host || host === undefined) return undefined;
  return parseOrigin(`${origin.protocol}//${host}`)?.origin === origin.origin ? origin : undefined;
}

/**
 * Another site, or another port of this host: SameSite cookies reach us from there, and a GET may do something,
 * for example call a function. Browsers that do not say are told apart by the cookie alone.
 */
export function isForeignFetch({ headers }: FastifyRequest): boolean {
  const site = headers['sec-fetch-site'];
  return site !== undefined && site !== 'same-origin' && site !== 'none';
}

/**
 * The person at the keyboard of this machine: a loopback peer that asked for a loopback name (a rebound name of
 * an attacker's is another one), directly.
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
