// Reverse proxy from the public port to the live release. Lets a release be replaced while requests are in flight on
// the previous one.
import {
  Agent,
  request as httpRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from 'node:http';
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
    const headers: OutgoingHttpHeaders = {};
    for (let at = 0; at + 1 < request.rawHeaders.length; at += 2) {
      const name = (request.rawHeaders[at] ?? '').toLowerCase();
      if (HOP_BY_HOP.has(name)) continue;
      const value = request.rawHeaders[at + 1] ?? '';
      const known = headers[name];
      headers[name] = known === undefined ? value : [known, value].flat().map(String);
    }
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

  close(): void {
    this.#agent.destroy();
  }
}

/**
 * The release believes what it is told here, so an unknown peer may only add to X-Forwarded-For, which is read from its
 * end. A trusted proxy that speaks `Forwarded` alone keeps doing so.
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
