// Sending a problem. A refusal often comes before the body was read, and then the connection is the difficulty:
// reading on would take what was refused, and closing at once can destroy the answer before the client sees it.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { toWire, type StorageProblem } from '../problem.ts';
import { clearHeaders, SAFE_HEADERS } from './serve.ts';

/** A remainder of this size is read and dropped, so that the connection can be used again. */
const DRAINED_BYTES = 64 * 1024;
/** Time for the client to read the answer before its unread body is cut off. */
const GRACE_MS = 500;

export function answerProblem(
  request: FastifyRequest,
  reply: FastifyReply,
  problem: StorageProblem,
): FastifyReply {
  request.scope.errorCode = problem.code;
  return answerRefusal(
    request,
    reply,
    problem.httpStatus,
    { 'content-type': 'application/json; charset=utf-8', ...problem.headers },
    JSON.stringify(toWire(problem)),
  );
}

export function answerRefusal(
  request: FastifyRequest,
  reply: FastifyReply,
  status: number,
  wanted: Readonly<Record<string, string>>,
  body: string,
): FastifyReply {
  clearHeaders(reply);
  const headers: Record<string, string | number> = {
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    ...SAFE_HEADERS,
    ...wanted,
  };
  const { raw } = request;
  // A client that was given up on because it sends nothing will not send the rest either.
  if (raw.complete || (status !== 408 && !hasLargeBody(request))) {
    raw.resume();
    return reply.code(status).headers(headers).send(body);
  }
  reply.hijack();
  if (raw.destroyed || reply.raw.destroyed) return reply;
  raw.pause();
  reply.raw.writeHead(status, { ...headers, connection: 'close' });
  // Whole by its length; ending it is what closes the connection.
  reply.raw.write(body);
  const timer = setTimeout(() => reply.raw.end(() => raw.destroy()), GRACE_MS);
  timer.unref();
  raw.socket.once('close', () => {
    clearTimeout(timer);
    if (!reply.raw.writableEnded) reply.raw.end();
  });
  return reply;
}

function hasLargeBody({ headers }: FastifyRequest): boolean {
  if (headers['transfer-encoding'] !== undefined) return true;
  return Number(headers['content-length'] ?? 0) > DRAINED_BYTES;
}
