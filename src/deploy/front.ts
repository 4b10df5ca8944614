// Reverse proxy from the public port to the live release. Lets a release be replaced while requests are in flight on
// the previous one.
import {
  Agent,
  request as httpRequest,
  STATUS_CODES,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from 'node:http';
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { FRONT_HEADER } from '../http/client.ts';
import { readAddress, type AddressList } from '../lib/ip-address.ts';

export type FrontTarget = {
  readonly port: number;
  /** Shows the release that a request comes from here. */
  readonly secret: string;
  /** Proxies before this one that may name a client. */
  readonly trusted: AddressList;
};

const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'upgrade',
  'transfer-encoding',
]);

export class Front {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: Infinity });

  pass(request: IncomingMessage, response: ServerResponse, target: FrontTarget | undefined): void {
    if (target === undefined) {
      unavailable(response);
      return;
    }
    const headers = forwardedHeaders(request);
    nameClient(headers, request, target);
    // HTTP/1.0 need not name one, and the release is asked in HTTP/1.1, which must.
    headers['host'] ??= `127.0.0.1:${target.port}`;
    if (request.headers['transfer-encoding'] !== undefined) headers['transfer-encoding'] = 'chunked';
    const onward = httpRequest(
      {
        host: '127.0.0.1',
        port: target.port,
        method: request.method,
        path: request.url,
        headers,
        agent: this.#agent,
        setHost: false,
      },
      (answer) => {
        const fields: string[] = [];
        for (let at = 0; at + 1 < answer.rawHeaders.length; at += 2) {
          const name = answer.rawHeaders[at] ?? '';
          if (!HOP_BY_HOP.has(name.toLowerCase())) fields.push(name, answer.rawHeaders[at + 1] ?? '');
        }
        response.writeHead(answer.statusCode ?? 502, fields);
        response.flushHeaders();
        answer.pipe(response);
        answer.on('error', () => response.destroy());
      },
    );
    onward.on('error', () => {
      if (response.headersSent) response.destroy();
      else unavailable(response);
    });
    response.on('close', () => onward.destroy());
    request.pipe(onward);
  }

  /** A request for a socket: from its head on, bytes go through in both directions. */
  passSocket(request: IncomingMessage, socket: Duplex, head: Buffer, target: FrontTarget | undefined): void {
    socket.on('error', () => onward?.destroy());
    const onward = target && connect({ host: '127.0.0.1', port: target.port });
    if (!target || !onward) {
      socket.end(`HTTP/1.1 503 ${STATUS_CODES[503]}\r\nRetry-After: 1\r\nConnection: close\r\n\r\n`);
      return;
    }
    const headers = forwardedHeaders(request);
    nameClient(headers, request, target);
    const lines = Object.entries({ ...headers, connection: 'Upgrade', upgrade: request.headers.upgrade })
      .flatMap(([name, value]) => [value ?? []].flat().map((item) => `${name}: ${item}\r\n`))
      .join('');
    onward.on('error', () => socket.destroy());
    onward.on('close', () => socket.end());
    socket.on('close', () => onward.destroy());
    onward.write(`${request.method} ${request.url} HTTP/1.1\r\n${lines}\r\n`);
    onward.write(head);
    socket.pipe(onward).pipe(socket);
  }

  close(): void {
    this.#agent.destroy();
  }
}

function forwardedHeaders(request: IncomingMessage): OutgoingHttpHeaders {
  const headers: OutgoingHttpHeaders = {};
  for (let at = 0; at + 1 < request.rawHeaders.length; at += 2) {
    const name = (request.rawHeaders[at] ?? '').toLowerCase();
    if (HOP_BY_HOP.has(name)) continue;
    const value = request.rawHeaders[at + 1] ?? '';
    const known = headers[name];
    headers[name] = known === undefined ? value : [known, value].flat().map(String);
  }
  return headers;
}

/** A socket is asked for, and nothing else is left to HTTP. */
export function asksForSocket({ headers }: IncomingMessage): boolean {
  return headers.upgrade?.toLowerCase() === 'websocket';
}

/**
 * The release trusts these headers, so an unknown peer may only append to X-Forwarded-For, which is read from its
 * end. For a trusted proxy that sends only `Forwarded`, that header is extended instead.
 */
function nameClient(headers: OutgoingHttpHeaders, request: IncomingMessage, target: FrontTarget): void {
  const peer = readAddress(request.socket.remoteAddress ?? '') ?? 'unknown';
  const isTrusted = target.trusted.has(peer);
  if (!isTrusted) delete headers['forwarded'];
  if (!isTrusted || headers['x-forwarded-proto'] === undefined) headers['x-forwarded-proto'] = 'http';
  const speaksForwarded = headers['forwarded'] !== undefined && headers['x-forwarded-for'] === undefined;
  const name = speaksForwarded ? 'forwarded' : 'x-forwarded-for';
  const own = speaksForwarded ? `for="${peer.includes(':') ? `[${peer}]` : peer}"` : peer;
  const before = headers[name];
  headers[name] = before === undefined ? own : `${[before].flat().join(', ')}, ${own}`;
  headers[FRONT_HEADER] = target.secret;
}

function unavailable(response: ServerResponse): void {
  const body = JSON.stringify({ code: 'no_release', message: 'No release is live' });
  response.writeHead(503, { 'content-type': 'application/json', 'retry-after': '1' }).end(body);
}
