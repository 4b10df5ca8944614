// The only way in which auth calls a provider. Addresses from a provider's documents must be public, so that a
// discovery document cannot make this server call its own network (SSRF). Hosts that the operator configured may be
// private. No redirects, at most 10 seconds and 1 MB.
import { lookup as systemLookup, type LookupAddress } from 'node:dns';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { BlockList, isIP, type LookupFunction } from 'node:net';

const TIMEOUT_MS = 10_000;
const MAX_BYTES = 1024 * 1024;

export type GuardedFetch = (url: string, init?: GuardedInit) => Promise<Response>;

export type GuardedInit = {
  readonly method?: string | undefined;
  readonly headers?: RequestInit['headers'] | undefined;
  readonly body?: unknown;
};

/** `trusted`: URLs from svc.yaml or the environment. They may be private and need no TLS. */
export function guardedFetch(trusted: readonly string[]): GuardedFetch {
  const origins = new Set(trusted.map((url) => new URL(url).origin));
  return async (url, init = {}) => {
    const address = new URL(url);
    const isTrusted = origins.has(address.origin);
    if (!isTrusted && address.protocol !== 'https:')
      throw new Error(`refused to call ${address.origin}: not https`);
    if (!isTrusted && isPrivateHost(address.hostname)) {
      throw new Error(`refused to call ${address.origin}: not a public address`);
    }
    return await exchange(address, init, isTrusted ? undefined : publicLookup);
  };
}

function exchange(address: URL, init: GuardedInit, lookup: LookupFunction | undefined): Promise<Response> {
  const send = address.protocol === 'https:' ? httpsRequest : httpRequest;
  const body = init.body === undefined || init.body === null ? undefined : bodyText(init.body);
  const headers = Object.fromEntries(new Headers(init.headers));
  headers['user-agent'] ??= 'svc';
  if (init.body instanceof URLSearchParams)
    headers['content-type'] ??= 'application/x-www-form-urlencoded;charset=UTF-8';
  if (body !== undefined) headers['content-length'] = String(Buffer.byteLength(body));
  return new Promise((resolve, reject) => {
    const request = send(address, {
      method: init.method ?? 'GET',
      headers,
      signal: AbortSignal.timeout(TIMEOUT_MS),
      ...(lookup ? { lookup } : {}),
    });
    request.on('error', reject);
    request.on('response', (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > MAX_BYTES)
          request.destroy(new Error(`${address.origin} sent more than ${MAX_BYTES} bytes`));
        else chunks.push(chunk);
      });
      response.on('error', reject);
      response.on('end', () => {
        const status = response.statusCode ?? 502;
        const answered = new Headers();
        for (const [name, value] of Object.entries(response.headers)) {
          if (typeof value === 'string') answered.set(name, value);
        }
        const hasBody = status !== 204 && status !== 304;
        resolve(new Response(hasBody ? Buffer.concat(chunks) : null, { status, headers: answered }));
      });
    });
    request.end(body);
  });
}

function bodyText(body: unknown): string {
  if (typeof body === 'string') return body;
  if (body instanceof URLSearchParams) return body.toString();
  throw new Error('a provider is only ever sent text');
}

const PRIVATE = new BlockList();
for (const [network, prefix] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const) {
  PRIVATE.addSubnet(network, prefix, 'ipv4');
}
for (const [network, prefix] of [
  ['::', 96],
  ['::ffff:0:0:0', 96],
  ['64:ff9b:1::', 48],
  ['2001::', 32],
  ['2002::', 16],
  ['fec0::', 10],
  ['64:ff9b::', 96],
  ['fc00::', 7],
  ['fe80::', 10],
  ['ff00::', 8],
] as const) {
  PRIVATE.addSubnet(network, prefix, 'ipv6');
}

export function isPrivateAddress(address: string): boolean {
  const mapped = /^::ffff:(?:(\d+\.\d+\.\d+\.\d+)|([0-9a-f]{1,4}):([0-9a-f]{1,4}))$/i.exec(address);
  if (mapped) {
    const high = Number.parseInt(mapped[2] ?? '0', 16);
    const low = Number.parseInt(mapped[3] ?? '0', 16);
    return isPrivateAddress(mapped[1] ?? [high >> 8, high & 255, low >> 8, low & 255].join('.'));
  }
  const family = isIP(address);
  if (family === 0) return true;
  return PRIVATE.check(address, family === 4 ? 'ipv4' : 'ipv6');
}

/**
 * Returns whether the host is a private IP address. Literal addresses are never looked up, so they are
 * checked here.
 */
function isPrivateHost(hostname: string): boolean {
  const literal = hostname.replace(/^\[|\]$/g, '');
  return isIP(literal) !== 0 && isPrivateAddress(literal);
}

/** Checks the addresses that the connection uses, so that a name cannot change in between (DNS rebinding). */
const publicLookup: LookupFunction = (hostname, options, callback) => {
  systemLookup(hostname, { ...options, all: true }, (error, addresses: LookupAddress[]) => {
    if (error) {
      callback(error, '', 0);
      return;
    }
    const [first] = addresses;
    if (!first || addresses.some(({ address }) => isPrivateAddress(address))) {
      callback(new Error(`refused to call ${hostname}: it has a private address`), '', 0);
      return;
    }
    if (options.all) callback(null, addresses);
    else callback(null, first.address, first.family);
  });
};
