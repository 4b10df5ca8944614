// Answers to what the HTTP parser refuses: invalid HTTP, a head that is too large or too slow. Mostly there is no request
// yet, so the answer is written to the socket: in the format of the API that was asked, and with CORS headers, because
// without them a browser would show a network failure.
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { allowedOrigin, type CorsPolicy } from '../../http/cors.ts';
import type { Mount } from '../../http/feature.ts';
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
  /** Node's `clientError`. */
  readonly onClientError: (error: ParserError, socket: Socket) => void;
  /** How the API of this URL writes its refusals. */
  readonly formatOf: (url: string | undefined) => RefusalFormat;
};

export function earlyRefusal({ log, mounts, cors, nextId, inFlight }: EarlyRefusalOptions): EarlyRefusal {
  const formatOf = (url = ''): RefusalFormat =>
    mounts.find(({ prefix }) => url.startsWith(prefix) && /^(?:[/?]|$)/.test(url.slice(prefix.length)))
      ?.format ?? generalFormat;

  /** A request is being answered: what is wrong with its body is told in its answer, or not at all. */
  const endRequest = (socket: Socket, error: ParserError): void => {
    const response = responseOn(socket);
    // The client has left in the middle of it.
    if (error.code === 'HPE_INVALID_EOF_STATE') {
      socket.destroy();
      return;
    }
    for (const { reply } of inFlight) {
      if (!reply || reply.raw !== response) continue;
      if (reply.sent || reply.raw.headersSent) break;
      reply.raw.setHeader('Connection', 'close');
      endBodyWith(reply);
      void reply.send(problemOf(error));
      return;
    }
    socket.destroy();
  };

  return {
    formatOf,
    onClientError(error, socket) {
      // The client is gone, or has an answer to what it goes on sending.
      if (error.code === 'ECONNRESET' || !socket.writable || isAnswered(socket)) {
        socket.destroy();
        return;
      }
      if (responseOn(socket) !== undefined) {
        endRequest(socket, error);
        return;
      }
      const packet = Buffer.isBuffer(error.rawPacket) ? error.rawPacket.toString('latin1') : '';
      const url = /^(?:\r?\n)*[!-~]+ (\S+)/.exec(packet)?.[1];
      const requestId = nextId();
      const problem = problemOf(error);
      const { status, headers, body } = formatOf(url)(problem, requestId);
      const head = {
        'Content-Type': 'application/json; charset=utf-8',
        ...headers,
        'Content-Length': String(Buffer.byteLength(body)),
        Connection: 'close',
        'X-Request-Id': requestId,
        ...readableBy(originIn(packet), cors()),
      };
      const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}\r\n`);
      dropAll(socket);
      socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('')}\r\n${body}`);
      // Without headers there is no other: the client, or the proxy before it.
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

/** Node keeps the response that owns the connection under this name. */
function responseOn(socket: Socket): unknown {
  return '_httpMessage' in socket ? (socket._httpMessage ?? undefined) : undefined;
}

/**
 * Only the last packet of a large head is here, so the origin is often unknown. The answer is the same for everybody;
 * where any page is allowed, every page may read it.
 */
function readableBy(origin: string | undefined, policy: CorsPolicy): Record<string, string> {
  if (origin !== undefined) return corsHeaders(origin, policy);
  const allowsPages = policy.origins.length > 0 || policy.allowLoopback;
  return allowsPages ? { 'Access-Control-Allow-Origin': '*' } : {};
}

/** For a page of this origin. */
export function corsHeaders(origin: string | undefined, policy: CorsPolicy): Record<string, string> {
  const allowed = origin === undefined ? undefined : allowedOrigin(origin, policy);
  if (allowed === undefined) return {};
  const toOrigin = { 'Access-Control-Allow-Origin': allowed };
  return allowed === '*'
    ? toOrigin
    : { ...toOrigin, 'Access-Control-Allow-Credentials': 'true', Vary: 'Origin' };
}

function problemOf({ code }: ParserError): Problem {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new Problem('headers_too_large', 431, 'The head of the request is larger than 64 KB', {
        hint: 'Shorten the URL or the headers: ask for fewer values at once, or send them in the body of a function call.',
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

/** Of the last packet, which is all there is. */
function originIn(packet: string): string | undefined {
  return /^origin:[ \t]*([\x21-\x7e]+)[ \t]*\r?$/im.exec(packet)?.[1];
}
