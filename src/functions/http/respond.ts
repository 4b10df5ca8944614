// Writes responses of `/functions/v1`: what the function returned, or an error in this API's format.
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { withServerCors } from '../../http/cors.ts';
import type { FeatureContext } from '../../http/feature.ts';
import { databaseFailure, failureProblem } from '../../postgres/pg-error.ts';
import { Abort, Problem } from '../../problem/problem.ts';
import { bodyTooSlow, toWire } from '../problem.ts';
import type { FunctionAnswer } from '../runtime/function-answer.ts';

const ONE_WRITE_BYTES = 16 * 1024;

export async function respond(
  request: FastifyRequest,
  reply: FastifyReply,
  { status, headers, body }: FunctionAnswer,
): Promise<FastifyReply> {
  const fields: Record<string, string | string[]> = {};
  for (const [name, value] of headers)
    fields[name.toLowerCase()] = typeof value === 'string' ? value : [...value];
  const { raw } = reply;
  withServerCors(raw, fields);
  if (body && !(body instanceof Readable)) fields['content-length'] = String(body.length);
  // Before hijacking, so that headers Node rejects still become an error response.
  raw.writeHead(status, fields);
  reply.hijack();
  if (!(body instanceof Readable)) {
    if (!body) raw.end();
    // Node sends head and body in one write only if the body is a string; latin1 preserves every byte.
    else if (body.length <= ONE_WRITE_BYTES) raw.end(body.toString('latin1'), 'latin1');
    else raw.end(body);
    return reply;
  }
  if (request.method === 'HEAD') {
    body.destroy();
    raw.end();
    return reply;
  }
  // Server-sent events may be silent at first; the client should get the headers at once.
  raw.flushHeaders();
  const announced = fields['content-length'];
  try {
    if (typeof announced === 'string') await pipeline(body, exactly(Number(announced)), raw);
    else await pipeline(body, raw);
  } catch {
    // The client left, or the function failed midway (already logged). Only a broken connection can signal that now.
    raw.destroy();
  }
  return reply;
}

/** Enforces content-length: with a wrong one, the client could take the rest for the next response. */
function exactly(bytes: number): (source: AsyncIterable<Buffer>) => AsyncGenerator<Buffer> {
  return async function* count(source) {
    let left = bytes;
    for await (const chunk of source) {
      left -= chunk.length;
      if (left < 0) throw new Error('the function sent more than its content-length');
      yield chunk;
    }
    if (left > 0) throw new Error('the function sent less than its content-length');
  };
}

export function answerError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  { log }: FeatureContext,
): FastifyReply {
  if (error instanceof Problem) return answerProblem(request, reply, error);
  if (error instanceof Abort && error.reason === 'slow-body')
    return answerProblem(request, reply, bodyTooSlow());
  if (error instanceof Abort) {
    return answerProblem(request, reply, new Problem('aborted', 503, 'The request was aborted'));
  }
  // Fastify's own client errors, such as a malformed content type.
  if (error instanceof Error && 'statusCode' in error && typeof error.statusCode === 'number') {
    if (error.statusCode < 500) {
      return answerProblem(request, reply, new Problem('bad_request', error.statusCode, error.message));
    }
  }
  const failure = databaseFailure(error);
  if (failure) {
    log.error({ err: error, requestId: request.id, route: request.routeOptions.url }, failure.message);
    return answerProblem(request, reply, failureProblem(failure, error));
  }
  log.error({ err: error, requestId: request.id, route: request.routeOptions.url }, 'fault');
  const hint = `See the log for request id ${request.id}.`;
  return answerProblem(request, reply, new Problem('internal_error', 500, 'Internal server error', { hint }));
}

export function answerProblem(request: FastifyRequest, reply: FastifyReply, problem: Problem): FastifyReply {
  request.scope.refusal = problem;
  return reply.code(problem.status).headers(problem.headers).send(toWire(problem));
}
