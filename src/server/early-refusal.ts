// Answers to what the HTTP parser refuses: invalid HTTP, a head that is too large or too slow. There is no request yet,
// so the answer is written to the socket, with the same JSON as other errors, and with CORS headers: without them a
// browser would show a network failure.
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { allowedOrigin, type CorsPolicy } from '../http/cors.ts';
import { Problem } from '../problem/problem.ts';

const LINGER_MS = 5_000;

type ParserError = Error & { readonly code?: string | undefined; readonly rawPacket?: unknown };

export function refuseEarly(error: ParserError, socket: Socket, policy: CorsPolicy): void {
  // The client is gone, or an answer is under way that must not be mixed with another.
  if (error.code === 'ECONNRESET' || !socket.writable || isAnswering(socket)) {
    socket.destroy();
    return;
  }
  const problem = problemOf(error);
  const { status } = problem;
  const body = JSON.stringify(toBody(problem));
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
    ...Object.entries(readableBy(originIn(error.rawPacket), policy)).map((header) => header.join(': ')),
  ];
  // What still arrives is read for a moment: closing at once would reset the connection before the answer is read.
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  timer.unref();
  socket.once('close', () => clearTimeout(timer)).resume();
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}

/** The JSON of a refusal outside the APIs, which have formats of their own. */
export function toBody({ code, message, details, hint }: Problem): Record<string, string | null> {
  return { code, message, details: details ?? null, hint: hint ?? null };
}

/** Node keeps the response that owns the connection under this name. */
function isAnswering(socket: Socket): boolean {
  return '_httpMessage' in socket && socket._httpMessage !== null && socket._httpMessage !== undefined;
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
function originIn(packet: unknown): string | undefined {
  const text = Buffer.isBuffer(packet) ? packet.toString('latin1') : '';
  return /^origin:[ \t]*([\x21-\x7e]+)[ \t]*\r?$/im.exec(text)?.[1];
}
