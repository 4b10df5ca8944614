// Checks whether a request comes from the dashboard's own page, and whether it comes from this machine. Browsers send
// `Origin` with every state-changing request, and a page cannot set it.
import type { FastifyRequest } from 'fastify';

const LOOPBACK_HOST = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/i;
/** Headers of proxies and tunnels: behind one, the peer address is not the address of the browser. */
const FORWARDED = /^(?:forwarded|via|x-forwarded-.*|x-original-.*|x-.*-ip|.*-client-ip|cf-.*)$/;

/** Returns the request's origin if it is our own, undefined if it is missing, `null` or foreign. */
export function ownOrigin(request: FastifyRequest, baseUrl: string | undefined): URL | undefined {
  const origin = parseOrigin(request.headers.origin);
  const { host } = request.headers;
  if (!origin) return undefined;
  const base = baseUrl === undefined ? undefined : new URL(baseUrl);
  if (base?.origin === origin.origin) return origin;
  // An http origin of a host that is served over https could be an attacker on the network.
  if (base?.host === origin.host || host === undefined) return undefined;
  return parseOrigin(`${origin.protocol}//${host}`)?.origin === origin.origin ? origin : undefined;
}

/**
 * Returns whether the request comes from another site or from another port of this host. Browsers send SameSite
 * cookies from another port, and even a GET can have effects, such as calling a function. Browsers without
 * Sec-Fetch-Site have only the protection of SameSite.
 */
export function isForeignFetch({ headers }: FastifyRequest): boolean {
  const site = headers['sec-fetch-site'];
  return site !== undefined && site !== 'same-origin' && site !== 'none';
}

/**
 * Returns whether the request comes from this machine: from a loopback peer, for a loopback name (DNS rebinding would
 * show another name), and without a proxy.
 */
export function isLocal({ headers, client }: FastifyRequest): boolean {
  return (
    client.via === 'local' &&
    LOOPBACK_HOST.test(headers.host ?? '') &&
    !Object.keys(headers).some((name) => FORWARDED.test(name))
  );
}

function parseOrigin(text: string | undefined): URL | undefined {
  if (text === undefined || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  return url.protocol === 'http:' || url.protocol === 'https:' ? url : undefined;
}
