// Identifies the client of a request: the peer of the connection, or the address that trusted proxies report.
// `request.client` is the only source for limits, logs, the audit log and sessions. Fastify's `request.ip` accepts
// text that is not an address, and with proxies it trusts X-Forwarded-Host too.
import { timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { AddressList, isLoopback, readAddress } from '../lib/ip-address.ts';
import type { Log } from '../log/log.ts';

export type Client = {
  /** Canonical address: without port, brackets and zone; IPv4 in IPv6 as IPv4. */
  readonly address: string;
  readonly proto: 'http' | 'https';
  /**
   * Source of the address. `local`: the peer is a program on this machine without a proxy. `proxy`: trusted proxies
   * reported it. `peer`: the other end of the connection.
   */
  readonly via: 'local' | 'peer' | 'proxy';
};

declare module 'fastify' {
  interface FastifyRequest {
    client: Client;
  }
}

export type ClientReaderOptions = {
  /** Addresses, ranges and words of `server.trusted_proxies`. A change is detected by object identity. */
  readonly trusted: () => readonly string[];
  /** Secret that the front of `svc receive` sends with each request. Unset without `svc receive`. */
  readonly frontSecret?: string | undefined;
  readonly dev: boolean;
  readonly log: Log;
};

/** Header with which `svc receive` authenticates itself. It is removed before later handlers see it. */
export const FRONT_HEADER = 'x-svc-front';

/** Maximum number of successive proxies. A longer chain is invalid. */
const MAX_HOPS = 32;

type Peer = { readonly address: string; readonly isTrusted: boolean; readonly client: Client };

export class ClientReader {
  readonly #options: ClientReaderOptions;
  readonly #frontSecret: Buffer | undefined;
  #entries: readonly string[] | undefined;
  #trusted = new AddressList([]);
  /** A connection carries many requests. */
  #peers = new WeakMap<Socket, Peer>();
  #hasWarned = false;
  #hasWarnedOfTwo = false;

  constructor(options: ClientReaderOptions) {
    this.#options = options;
    if (options.frontSecret !== undefined) this.#frontSecret = Buffer.from(options.frontSecret);
  }

  read(request: IncomingMessage): Client {
    const peer = this.#findPeer(request.socket);
    const { headers } = request;
    const isTrusted = this.#frontSecret
      ? this.#isFront(request, this.#frontSecret) || (peer.isTrusted && !isLoopback(peer.address))
      : peer.isTrusted;
    if (isTrusted) return this.#readForwarded(headers, peer);
    if (headers['x-forwarded-for'] !== undefined || headers.forwarded !== undefined) this.#warn(peer.address);
    else if (peer.client.via !== 'local' || !isForwarded(headers)) return peer.client;
    return { ...peer.client, via: 'peer' };
  }

  /** Whether a program on this machine or a trusted proxy sent the request itself, without a forwarded client. */
  isInsider({ socket, headers }: IncomingMessage): boolean {
    const { address, isTrusted } = this.#findPeer(socket);
    if (!isTrusted && !isLoopback(address)) return false;
    return (
      headers['x-forwarded-for'] === undefined && headers.forwarded === undefined && !isForwarded(headers)
    );
  }

  #findPeer(socket: Socket): Peer {
    const entries = this.#options.trusted();
    if (entries !== this.#entries) this.#follow(entries);
    const known = this.#peers.get(socket);
    if (known) return known;
    const peer = this.#readPeer(socket);
    this.#peers.set(socket, peer);
    return peer;
  }

  #follow(entries: readonly string[]): void {
    this.#entries = entries;
    this.#trusted = new AddressList(entries);
    this.#peers = new WeakMap();
    this.#hasWarned = false;
  }

  #readPeer(socket: Socket): Peer {
    // A closed connection has no peer address, and its response is never read.
    // oxlint-disable-next-line no-restricted-properties -- this is where `request.client` comes from.
    const address = readAddress(socket.remoteAddress ?? '') ?? '0.0.0.0';
    const proto = 'encrypted' in socket && socket.encrypted === true ? 'https' : 'http';
    const couldBeLocal = isLoopback(address) && this.#frontSecret === undefined;
    // If proxies are configured, a local proxy that reports no client must not count as a local client.
    const isLocal = couldBeLocal && (this.#options.dev || this.#trusted.size === 0);
    const client: Client = { address, proto, via: isLocal ? 'local' : 'peer' };
    return { address, isTrusted: this.#trusted.has(address), client };
  }

  #isFront({ headers, rawHeaders }: IncomingMessage, secret: Buffer): boolean {
    const given = headers[FRONT_HEADER];
    if (given === undefined) return false;
    // Statements and code functions are shown the headers.
    delete headers[FRONT_HEADER];
    for (let at = rawHeaders.length - 2; at >= 0; at -= 2) {
      if (rawHeaders[at]?.toLowerCase() === FRONT_HEADER) rawHeaders.splice(at, 2);
    }
    const bytes = Buffer.from(String(given));
    return bytes.length === secret.length && timingSafeEqual(bytes, secret);
  }

  #readForwarded(headers: IncomingHttpHeaders, { address: peer, client }: Peer): Client {
    const list = headerText(headers['x-forwarded-for']);
    const forwarded = headerText(headers.forwarded);
    if (list === undefined && forwarded === undefined && headers['x-forwarded-proto'] === undefined) {
      return client;
    }
    const elements = forwarded === undefined ? [] : readElements(forwarded);
    const { address, hops } = this.#walk(
      list === undefined ? elements.map((element) => element.for) : lastEntries(list),
      peer,
    );
    if (list !== undefined && forwarded !== undefined && !this.#hasWarnedOfTwo) {
      const second = this.#walk(
        elements.map((element) => element.for),
        peer,
      );
      if (second.address !== address) this.#warnOfTwo(peer);
    }
    const proto =
      headerText(headers['x-forwarded-proto']) ??
      (list === undefined ? elements.map((element) => element.proto) : []);
    return { address, proto: readScheme(proto, hops) ?? client.proto, via: hops > 0 ? 'proxy' : 'peer' };
  }

  /** Walks from the nearest entry to the farthest, while the reporting hop is trusted. */
  #walk(entries: readonly string[], peer: string): { readonly address: string; readonly hops: number } {
    let address = peer;
    let hops = 0;
    for (let at = entries.length - 1; at >= 0 && hops < MAX_HOPS; at--) {
      const named = addressIn(entries[at] ?? '');
      if (named === undefined) break;
      address = named;
      hops += 1;
      if (!this.#trusted.has(named)) break;
    }
    return { address, hops };
  }

  #warn(peer: string): void {
    if (this.#hasWarned || this.#frontSecret) return;
    this.#hasWarned = true;
    this.#options.log.warn(
      { peer, add: `server: { trusted_proxies: ["${peer}"] }` },
      'requests come with a forwarded address from a peer that is not trusted to forward: ' +
        'all of them count as its own. If it is your proxy, add it to svc.yaml',
    );
  }

  #warnOfTwo(peer: string): void {
    this.#hasWarnedOfTwo = true;
    this.#options.log.warn(
      { peer },
      'a proxy sends X-Forwarded-For and Forwarded, and they name different clients: ' +
        'X-Forwarded-For counts. Let it send one of the two',
    );
  }
}

/** Whether a local peer is a proxy, which adds one of these headers. */
function isForwarded(headers: IncomingHttpHeaders): boolean {
  return (
    headers.via !== undefined ||
    headers['x-real-ip'] !== undefined ||
    headers['x-forwarded-proto'] !== undefined ||
    headers['x-forwarded-host'] !== undefined ||
    headers['cf-connecting-ip'] !== undefined ||
    headers['true-client-ip'] !== undefined
  );
}

/** Node joins the lines of a list by commas. */
function headerText(header: string | string[] | undefined): string | undefined {
  const text = Array.isArray(header) ? header.join(',') : header;
  return text === undefined || text.trim() === '' ? undefined : text;
}

/** The entries that can count at all: a head of 64 KB has room for thousands. */
function lastEntries(list: string): string[] {
  const entries: string[] = [];
  let end = list.length;
  while (end >= 0 && entries.length < MAX_HOPS) {
    const comma = end === 0 ? -1 : list.lastIndexOf(',', end - 1);
    const entry = list.slice(comma + 1, end).trim();
    if (entry !== '') entries.unshift(entry);
    end = comma;
  }
  return entries;
}

/** `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80`. */
function addressIn(entry: string): string | undefined {
  const bracketed = /^\[([^\]]+)\](?::\d{1,5})?$/.exec(entry)?.[1];
  if (bracketed !== undefined) return bracketed.includes(':') ? readAddress(bracketed) : undefined;
  const withPort = /^([^:]+):\d{1,5}$/.exec(entry)?.[1];
  return readAddress(withPort ?? entry);
}

type Element = { readonly for: string; readonly proto: string };

/** RFC 7239, `for=192.0.2.1;proto=https, for="[2001:db8::1]"`; the last elements, as many as can count. */
function readElements(header: string): Element[] {
  const elements = splitOutsideQuotes(header, ',').slice(-MAX_HOPS);
  return elements.map((element) => {
    const pairs = splitOutsideQuotes(element, ';').map((pair) => {
      const [name = '', ...value] = pair.split('=');
      return [name.toLowerCase(), unquote(value.join('='))] as const;
    });
    const known = new Map(pairs);
    return { for: known.get('for') ?? '', proto: known.get('proto') ?? '' };
  });
}

function splitOutsideQuotes(text: string, separator: string): string[] {
  const parts: string[] = [];
  let begin = 0;
  let isQuoted = false;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (char === '"') isQuoted = !isQuoted;
    else if (char === '\\' && isQuoted) at += 1;
    else if (char === separator && !isQuoted) {
      parts.push(text.slice(begin, at).trim());
      begin = at + 1;
    }
  }
  return [...parts, text.slice(begin).trim()].filter((part) => part !== '');
}

function unquote(value: string): string {
  return /^".*"$/.test(value) ? value.slice(1, -1).replaceAll(/\\(.)/g, '$1') : value;
}

/**
 * Returns the scheme of the request to the outermost trusted proxy. A proxy that overwrites the header sends one
 * word; if each proxy appends one, the words have the order of the addresses.
 */
function readScheme(words: string | readonly string[], hops: number): Client['proto'] | undefined {
  const list = (typeof words === 'string' ? words.split(',') : words).map((word) =>
    word.trim().toLowerCase(),
  );
  const word = list.length === 1 ? list[0] : list[Math.max(0, list.length - Math.max(1, hops))];
  return word === 'https' || word === 'http' ? word : undefined;
}
