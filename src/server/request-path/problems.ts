// Turns errors of requests into problems, and sends them in the general format.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { bodyTooSlow } from '../../http/body.ts';
import { toBody } from '../../http/refusal-format.ts';
import type { Log } from '../../log/log.ts';
import { databaseFailure, failureProblem } from '../../postgres/pg-error.ts';
import { Abort, Problem } from '../../problem/problem.ts';
import { loggedUrl } from '../logged-url.ts';

/** Handles errors outside of the APIs, which render problems in their own formats, and unknown paths. */
export function addProblemHandlers(server: FastifyInstance, log: Log): void {
  server.setErrorHandler((error, request, reply) =>
    sendProblem(request, reply, toProblem(error, request, log)),
  );
  server.setNotFoundHandler((request, reply) => {
    const path = loggedUrl(request.url).split('?')[0] ?? '';
    const problem = new Problem('not_found', 404, `No such path: ${path}`, {
      hint: 'The APIs are under /rest/v1, /auth/v1, /storage/v1, /functions/v1 and /realtime/v1.',
    });
    sendProblem(request, reply, problem);
  });
}

function toProblem(error: unknown, { id: requestId, routeOptions }: FastifyRequest, log: Log): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof Abort && error.reason === 'slow-body') return bodyTooSlow();
  if (error instanceof Abort) {
    return new Problem('request_timeout', 504, 'The request took too long', {
      hint: 'server.timeouts.request in svc.yaml is the limit.',
    });
  }
  const failure = databaseFailure(error);
  if (failure) {
    log.error({ err: error, requestId, route: routeOptions.url }, failure.message);
    return failureProblem(failure, error);
  }
  const refusal = clientMistake(error);
  if (refusal) return refusal;
  log.error({ err: error, requestId, route: routeOptions.url }, 'fault');
  return new Problem('internal_error', 500, 'Internal server error', {
    hint: `Search the log for request id ${requestId}.`,
  });
}

function sendProblem(request: FastifyRequest, reply: FastifyReply, problem: Problem): void {
  request.scope.refusal = problem;
  void reply.code(problem.status).headers(problem.headers).send(toBody(problem));
}

/** Returns the problem for an error of the HTTP framework, such as an invalid Content-Type. */
function clientMistake(error: unknown): Problem | undefined {
  if (!(error instanceof Error) || !('statusCode' in error) || !('code' in error)) return undefined;
  const { statusCode, code, message } = error;
  if (typeof statusCode !== 'number' || statusCode < 400 || statusCode > 499) return undefined;
  if (typeof code !== 'string' || !code.startsWith('FST_')) return undefined;
  return new Problem('bad_request', statusCode, message, { hint: 'Correct the headers of the request.' });
}
