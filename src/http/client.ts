// Who sends a request: the peer of the connection, or whom trusted proxies name. `request.client` is the only source
// for limits, logs, the audit log and sessions. Fastify's own `request.ip` takes text that is no address, and with
// proxies believes X-Forwarded-Host too.
import { timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { AddressList, isLoopback, readAddress } from '../lib/ip-address.ts';
import type { Log } from '../log/log.ts';

export type Client = {
  /** One spelling for each address: without port, brackets and zone; IPv4 in IPv6 as IPv4. */
  readonly address: string;
  readonly proto: 'http' | 'https';
  /**
   * How the address is known. `local`: the peer is a program of this machine, and no proxy stands between. `proxy`:
   * trusted proxies name it. `peer`: it is the other end of the connection.
   */
  readonly via: 'local' | 'peer' | 'proxy';
};

declare module 'fastify' {
  interface FastifyRequest {
    client: Client;
  }
}

export type ClientReaderOptions = {
  /** Addresses, ranges and words of `server.trusted_proxies`. Another list is noticed by its identity. */
  readonly trusted: () => readonly string[];
  /** Set where `svc receive` stands before this process: what its front sends with each request. */
  readonly frontSecret?: string | undefined;
  readonly dev: boolean;
  readonly log: Log;
};

/** `svc receive` proves itself with it to the release; nobody behind may see it. */
export const FRONT_HEADER = 'x-svc-front';

/** Proxies that follow each other; a longer chain was made up. */
const MOST_HOPS = 32;

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
    const peer = this.#peerOf(request.socket);
    const { headers } = request;
    const isTrusted = this.#frontSecret
      ? this.#isFront(request, this.#frontSecret) || (peer.isTrusted && !isLoopback(peer.address))
      : peer.isTrusted;
    if (isTrusted) return this.#readForwarded(headers, peer);
    if (headers['x-forwarded-for'] !== undefined || headers.forwarded !== undefined) this.#warn(peer.address);
    else if (peer.client.via !== 'local' || !isForwarded(headers)) return peer.client;
    return { ...peer.client, via: 'peer' };
  }

  /** Asked from this machine or by a trusted proxy itself, not through one. */
  isInsider({ socket, headers }: IncomingMessage): boolean {
    const { address, isTrusted } = this.#peerOf(socket);
    if (!isTrusted && !isLoopback(address)) return false;
    return (
      headers['x-forwarded-for'] === undefined && headers.forwarded === undefined && !isForwarded(headers)
    );
  }

  #peerOf(socket: Socket): Peer {
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
    // A connection that is closed already has no peer any more, and nobody reads the answer.
    // oxlint-disable-next-line no-restricted-properties -- this is where `request.client` comes from.
    const address = readAddress(socket.remoteAddress ?? '') ?? '0.0.0.0';
    const proto = 'encrypted' in socket && socket.encrypted === true ? 'https' : 'http';
    const couldBeLocal = isLoopback(address) && this.#frontSecret === undefined;
    // With proxies in use, a proxy of this machine that names nobody must not stand for all who come through it.
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
    const list = textOf(headers['x-forwarded-for']);
    const forwarded = textOf(headers.forwarded);
    if (list === undefined && forwarded === undefined && headers['x-forwarded-proto'] === undefined) {
      return client;
    }
    const elements = forwarded === undefined ? [] : elementsOf(forwarded);
    const { address, hops } = this.#walk(
      list === undefined ? elements.map((one) => one.for) : lastEntries(list),
      peer,
    );
    if (list !== undefined && forwarded !== undefined && !this.#hasWarnedOfTwo) {
      const other = this.#walk(
        elements.map((one) => one.for),
        peer,
      );
      if (other.address !== address) this.#warnOfTwo(peer);
    }
    const proto =
      textOf(headers['x-forwarded-proto']) ?? (list === undefined ? elements.map((one) => one.proto) : []);
    return { address, proto: schemeOf(proto, hops) ?? client.proto, via: hops > 0 ? 'proxy' : 'peer' };
  }

  /** From the nearest entry to the farthest, while the one who names it is trusted. */
  #walk(entries: readonly string[], peer: string): { readonly address: string; readonly hops: number } {
    let address = peer;
    let hops = 0;
    for (let at = entries.length - 1; at >= 0 && hops < MOST_HOPS; at--) {
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
      'requests come with a forwarded address from a peer that is not trusted to forward: all of them count as its own. If it is your proxy, add it to svc.yaml',
    );
  }

  #warnOfTwo(peer: string): void {
    this.#hasWarnedOfTwo = true;
    this.#options.log.warn(
      { peer },
      'a proxy sends X-Forwarded-For and Forwarded, and they name different clients: X-Forwarded-For counts. Let it send one of the two',
    );
  }
}

/** A program of this machine that is a proxy says so in one of these. */
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
function textOf(header: string | string[] | undefined): string | undefined {
  const text = Array.isArray(header) ? header.join(',') : header;
  return text === undefined || text.trim() === '' ? undefined : text;
}

/** The entries that can count at all: a head of 64 KB has room for thousands. */
function lastEntries(list: string): string[] {
  const entries: string[] = [];
  let end = list.length;
  while (end >= 0 && entries.length < MOST_HOPS) {
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
function elementsOf(header: string): Element[] {
  const elements = splitOutsideQuotes(header, ',').slice(-MOST_HOPS);
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
 * The scheme that the outermost trusted proxy was asked with. One that overwrites the header sends one word; where each
 * adds its own, the words stand in the order of the addresses.
 */
function schemeOf(words: string | readonly string[], hops: number): Client['proto'] | undefined {
  const list = (typeof words === 'string' ? words.split(',') : words).map((word) =>
    word.trim().toLowerCase(),
  );
  const word = list.length === 1 ? list[0] : list[Math.max(0, list.length - Math.max(1, hops))];
  return word === 'https' || word === 'http' ? word : undefined;
}
