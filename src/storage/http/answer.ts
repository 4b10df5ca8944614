// Sending a problem, often before the request body was read: reading a refused body to its end would be wasteful,
// and closing at once can destroy the answer before the client has read it.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { toWire, type StorageProblem } from '../problem.ts';
import { clearHeaders, SAFE_HEADERS } from './serve.ts';

/** Up to this size the body is read and dropped, so that the connection can be reused. */
const DRAINED_BYTES = 64 * 1024;
/** Time for the client to read the answer before the connection is closed. */
const GRACE_MS = 500;

export function answerProblem(
  request: FastifyRequest,
  reply: FastifyReply,
  problem: StorageProblem,
): FastifyReply {
  request.scope.refusal = problem;
  return answerRefusal(
    request,
    reply,
    problem.httpStatus,
    { 'content-type': 'application/json; charset=utf-8', ...problem.headers },
    JSON.stringify(toWire(problem)),
  );
}

/** `more` overrides the headers that every refusal has. */
export function answerRefusal(
  request: FastifyRequest,
  reply: FastifyReply,
  status: number,
  more: Readonly<Record<string, string>>,
  body: string,
): FastifyReply {
  clearHeaders(reply);
  const headers: Record<string, string | number> = {
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    ...SAFE_HEADERS,
    ...more,
  };
  const { raw } = request;
  // After a 408 the client sent nothing for a while: the rest of its body is not waited for.
  if (raw.complete || (status !== 408 && !hasLargeBody(request))) {
    raw.resume();
    return reply.code(status).headers(headers).send(body);
  }
  reply.hijack();
  if (raw.destroyed || reply.raw.destroyed) return reply;
  raw.pause();
  reply.raw.writeHead(status, { ...headers, connection: 'close' });
  // Complete by its content-length. `end` is called later, because it closes the connection.
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
