// Any error as this API writes it: four keys, JSON, the code once more in Proxy-Status so that HEAD shows it too.
import type { FastifyReply } from 'fastify';
import { bodyTooSlow } from '../../http/body.ts';
import type { RefusalFormat } from '../../http/refusal-format.ts';
import { hasCode } from '../../lib/error-code.ts';
import type { Log } from '../../log/log.ts';
import {
  databaseFailure,
  isDatabaseError,
  retryAfter,
  type DatabaseFailure,
} from '../../postgres/pg-error.ts';
import { RowRefused, RowTooLarge } from '../../postgres/wire/wire.ts';
import { noRoomForAnswer } from '../../problem/overloaded.ts';
import { Abort, Problem } from '../../problem/problem.ts';
import { badBody, AmbiguousEmbed, givenUp, requestDeadline, responseTooLarge } from '../problem.ts';
import { fromDatabase, type Asker } from './database-problem.ts';

const FALLBACK_HINT = 'See the documentation of the data API for what this code means.';

export function toProblem(error: unknown, asker: Asker): Problem | undefined {
  if (error instanceof Problem) return own(error);
  if (isDatabaseError(error)) return fromDatabase(error, asker);
  if (error instanceof RowTooLarge) return responseTooLarge(error.maxBytes);
  if (error instanceof RowRefused) return own(noRoomForAnswer());
  if (error instanceof Abort) return fromAbort(error);
  // Rejections by the server before the request reaches the feature.
  if (hasCode(error, 'FST_ERR_CTP_INVALID_MEDIA_TYPE')) {
    return badBody(
      'Content-Type not acceptable: it is not a media type',
      'Send application/json, text/csv or application/x-www-form-urlencoded.',
    );
  }
  return fromFailure(error);
}

function fromAbort({ reason }: Abort): Problem {
  if (reason === 'slow-body') return own(bodyTooSlow());
  return reason === 'deadline' ? requestDeadline() : givenUp();
}

const OWN_CODES: Readonly<Partial<Record<DatabaseFailure['kind'], string>>> = {
  unreachable: 'PGRST000',
  'outcome-unknown': 'SVC112',
  'read-only': 'SVC113',
};

/** The database could not be reached; errors that it reports itself are for `fromDatabase`. */
function fromFailure(error: unknown): Problem | undefined {
  const failure = databaseFailure(error);
  if (!failure || !(error instanceof Error)) return undefined;
  const { status, message, hint, kind } = failure;
  const headers = retryAfter(failure);
  const own = OWN_CODES[kind];
  return own
    ? new Problem(own, status, message, { hint, headers, cause: error })
    : new Problem('PGRST001', 503, 'Database client error. Retrying the connection.', {
        details: error.message,
        hint: 'The database cannot be reached at the moment: try again.',
        headers,
        cause: error,
      });
}

export function sendProblem(reply: FastifyReply, problem: Problem): void {
  // The deadline may have sent a response already.
  if (reply.sent) return;
  const body = toBody(problem);
  reply.request.scope.refusal = problem;
  reply.code(problem.status);
  reply.header('content-type', 'application/json; charset=utf-8');
  reply.header('proxy-status', `svc; error=${problem.code}`);
  for (const [name, value] of Object.entries(problem.headers)) reply.header(name, value);
  void reply.send(body);
}

function toBody(problem: Problem): string {
  return JSON.stringify({
    code: problem.code,
    details: problem instanceof AmbiguousEmbed ? problem.alternatives : (problem.details ?? null),
    hint: problem.hint ?? FALLBACK_HINT,
    message: problem.message,
  });
}

export const restFormat: RefusalFormat = (refusal) => {
  const problem = own(refusal);
  return {
    status: problem.status,
    headers: { 'proxy-status': `svc; error=${problem.code}`, ...problem.headers },
    body: toBody(problem),
  };
};

export function sendFault(reply: FastifyReply, error: unknown, id: string, log: Log): void {
  const { url: route } = reply.request.routeOptions;
  log.error({ err: error, requestId: id, route }, 'a data request failed for a reason of ours');
  sendProblem(
    reply,
    new Problem('PGRSTX00', 500, 'Internal server error', {
      details: `Request ${id}`,
      hint: 'The log of the server has the details under this request id.',
    }),
  );
}

const OWN_CODE_OF: Readonly<Record<string, string>> = {
  body_too_large: 'SVC101',
  pool_exhausted: 'PGRST003',
  overloaded: 'SVC120',
  no_room_for_answer: 'SVC121',
  request_timeout: 'SVC104',
};

/** Replaces the codes of problems from shared code by those of this API. */
function own(problem: Problem): Problem {
  const { message, details, hint, headers, status } = problem;
  const code = OWN_CODE_OF[problem.code];
  return code === undefined ? problem : new Problem(code, status, message, { details, hint, headers });
}
