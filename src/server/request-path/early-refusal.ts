// Responses to requests that the HTTP parser rejects: invalid HTTP, or a head that is too large or too slow. Usually no
// request object exists yet, so the response is written to the socket, in the format of the requested API. It has CORS
// headers, because without them a browser would show a network failure.
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { allowedOrigin, type CorsPolicy } from '../../http/cors.ts';
import type { Mount } from '../../http/feature.ts';
import { originForm } from '../../http/request-target.ts';
import { generalFormat, type RefusalFormat } from '../../http/refusal-format.ts';
import type { Log } from '../../log/log.ts';
import { Problem } from '../../problem/problem.ts';
import { loggedUrl } from '../logged-url.ts';
import type { InFlight } from './in-flight.ts';
import { refusalFields } from './request-line.ts';
import { dropAll, endBodyWith, isAnswered } from './rest-of-request.ts';

export type ParserError = Error & { readonly code?: string | undefined; readonly rawPacket?: unknown };

export type EarlyRefusalOptions = {
  readonly log: Log;
  readonly mounts: readonly Mount[];
  readonly cors: () => CorsPolicy;
  readonly nextId: () => string;
  readonly inFlight: InFlight;
};

export type EarlyRefusal = {
  /** Handler of Node's `clientError` event. */
  readonly onClientError: (error: ParserError, socket: Socket) => void;
  /** Handler of Node's `connect` event. svc is not a proxy. */
  readonly onConnect: (socket: Duplex) => void;
  /** Returns the error format of the API at this URL. */
  readonly errorFormat: (url: string | undefined) => RefusalFormat;
};

const NO_PROXY = new Problem('method_not_allowed', 405, 'CONNECT is not supported', {
  hint: 'svc is not a proxy: send the request itself.',
});

function refuseProxying(socket: Duplex, requestId: string): { readonly status: number } {
  const { status, body } = generalFormat(NO_PROXY, requestId);
  socket.on('error', () => void socket.destroy());
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nContent-Type: application/json; charset=utf-8\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n` +
      `Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\nX-Request-Id: ${requestId}\r\n\r\n${body}`,
  );
  return { status };
}

export function earlyRefusal({ log, mounts, cors, nextId, inFlight }: EarlyRefusalOptions): EarlyRefusal {
  const errorFormat = (target = ''): RefusalFormat => {
    const url = originForm(target);
    const mount = mounts.find(
      ({ prefix }) => url.startsWith(prefix) && /^(?:[/?]|$)/.test(url.slice(prefix.length)),
    );
    return mount?.format ?? generalFormat;
  };

  /** Answers a request whose body is invalid, unless its response has started. */
  const endRequest = (socket: Socket, error: ParserError): void => {
    const response = currentResponse(socket);
    // The client closed the connection while it sent the body.
    if (error.code === 'HPE_INVALID_EOF_STATE') {
      socket.destroy();
      return;
    }
    for (const { reply } of inFlight) {
      if (!reply || reply.raw !== response) continue;
      if (reply.sent || reply.raw.headersSent) break;
      reply.raw.setHeader('Connection', 'close');
      endBodyWith(reply);
      void reply.send(parserProblem(error));
      return;
    }
    socket.destroy();
  };

  return {
    errorFormat,
    onConnect(socket) {
      const requestId = nextId();
      const { status } = refuseProxying(socket, requestId);
      log.info(
        { requestId, method: 'CONNECT', status, ...refusalFields(NO_PROXY) },
        'request refused by the parser',
      );
    },
    onClientError(error, socket) {
      // The client has disconnected, or has already got its response.
      if (error.code === 'ECONNRESET' || !socket.writable || isAnswered(socket)) {
        socket.destroy();
        return;
      }
      if (currentResponse(socket) !== undefined) {
        endRequest(socket, error);
        return;
      }
      const packet = Buffer.isBuffer(error.rawPacket) ? error.rawPacket.toString('latin1') : '';
      const url = /^(?:\r?\n)*[!-~]+ (\S+)/.exec(packet)?.[1];
      const requestId = nextId();
      const problem = parserProblem(error);
      const { status, headers, body } = errorFormat(url)(problem, requestId);
      const head = {
        'Content-Type': 'application/json; charset=utf-8',
        ...headers,
        'Content-Length': String(Buffer.byteLength(body)),
        Connection: 'close',
        'X-Request-Id': requestId,
        ...earlyCorsHeaders(originIn(packet), cors()),
      };
      const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}\r\n`);
      dropAll(socket);
      socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('')}\r\n${body}`);
      // Without headers there is no forwarded address: this is the client, or the proxy in front of svc.
      // oxlint-disable-next-line no-restricted-properties
      const { remoteAddress: client } = socket;
      const where = url === undefined ? {} : { url: loggedUrl(url) };
      log.info(
        { requestId, client, ...where, status, ...refusalFields(problem) },
        'request refused by the parser',
      );
    },
  };
}

/** Returns the response that owns the connection. Node stores it under this name. */
function currentResponse(socket: Socket): unknown {
  return '_httpMessage' in socket ? (socket._httpMessage ?? undefined) : undefined;
}

/**
 * Returns the CORS headers. Only the last packet of a large head is available, so the origin is often
 * unknown. The response
 * is the same for all clients, so every page may read it if any page is allowed.
 */
function earlyCorsHeaders(origin: string | undefined, policy: CorsPolicy): Record<string, string> {
  if (origin !== undefined) return corsHeaders(origin, policy);
  const allowsPages = policy.origins.length > 0 || policy.allowLoopback;
  return allowsPages ? { 'Access-Control-Allow-Origin': '*' } : {};
}

/** Returns the CORS headers for a page of this origin. */
export function corsHeaders(origin: string | undefined, policy: CorsPolicy): Record<string, string> {
  const allowed = origin === undefined ? undefined : allowedOrigin(origin, policy);
  if (allowed === undefined) return {};
  const toOrigin = { 'Access-Control-Allow-Origin': allowed };
  return allowed === '*'
    ? toOrigin
    : { ...toOrigin, 'Access-Control-Allow-Credentials': 'true', Vary: 'Origin' };
}

function parserProblem({ code }: ParserError): Problem {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new Problem('headers_too_large', 431, 'The head of the request is larger than 64 KB', {
        hint: 'Shorten the URL or the headers: request fewer values, or send them in the body of a function call.',
      });
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new Problem('request_timeout', 408, 'The request did not arrive in time', {
        hint: 'Send it again.',
      });
    default:
      return new Problem('bad_request', 400, 'The request is not valid HTTP', {
        hint: 'Check the request line and the headers.',
      });
  }
}

/** Returns the origin in the last packet, the only part of the head that is available. */
function originIn(packet: string): string | undefined {
  return /^origin:[ \t]*([\x21-\x7e]+)[ \t]*\r?$/im.exec(packet)?.[1];
}
