// The data API as a feature of the server: its routes, callers and errors. pipeline.ts responds.
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Feature, FeatureContext } from '../http/feature.ts';
import { resolveDataCaller, type Caller, type Refusal } from '../identity/caller.ts';
import type { Presented } from '../identity/credentials.ts';
import { noRoomForAnswer } from '../problem/overloaded.ts';
import { Abort, type Problem } from '../problem/problem.ts';
import { options } from './actions/options.ts';
import { serve } from './pipeline.ts';
import { exposed, readableColumns } from './plan/exposed.ts';
import { PlanCache } from './plan/plan-cache.ts';
import { badToken, noApiKey, sessionRestricted, unknownApiKey } from './problem.ts';
import { readRequest } from './request/api-request.ts';
import { decode } from './request/parse-query.ts';
import { sendFault, sendProblem, toProblem } from './respond/wire-error.ts';

export const rest: Feature = (context) => async (app) => {
  const plans = new PlanCache();
  const prefixLength = app.prefix.length;

  // Not async, so that a request with known credentials sends its statement in this tick.
  const handle = (request: FastifyRequest, reply: FastifyReply): void => {
    let caller: Caller | undefined;
    const failed = (error: unknown): void => fail(context, request, reply, caller, error);
    try {
      const [path, query] = splitUrl(request.raw.url ?? '', prefixLength);
      const proceed = (presented: Presented): Promise<void> => {
        const resolution = resolveDataCaller(presented);
        if (resolution.ok) caller = resolution.caller;
        // OPTIONS describes the API and not the caller, so it needs no key.
        else if (request.method !== 'OPTIONS' || resolution.refusal.reason !== 'no-key') {
          throw refused(resolution.refusal);
        }
        const current = exposed(context.snapshot());
        const parsed = readRequest(request.method, path, query, request.headers, current.schemas);
        if (!caller) return options({ request: parsed, exposed: current, reply });
        const { scope, body } = request;
        return serve({ context, exposed: current, plans, request: parsed, caller, reply, scope, body });
      };
      const key = queryKey(query);
      const known = context.credentials.readKnown(request.headers, key);
      const answered = known ? proceed(known) : context.credentials.read(request.headers, key).then(proceed);
      answered.catch(failed);
    } catch (error) {
      failed(error);
    }
  };

  // Errors raised outside the handler, mostly the request deadline.
  app.setErrorHandler((error, request, reply) => fail(context, request, reply, undefined, error));
  const config = { writesHead: true };
  app.all('/*', { config }, handle);
  app.all('/', { config }, handle);
};

function splitUrl(url: string, prefixLength: number): readonly [path: string, query: string] {
  const mark = url.indexOf('?', prefixLength);
  return mark < 0 ? [url.slice(prefixLength), ''] : [url.slice(prefixLength, mark), url.slice(mark + 1)];
}

/** Reads the API key from the query, because links cannot carry headers. */
function queryKey(query: string): string | undefined {
  if (!query.includes('apikey=')) return undefined;
  const match = /(?:^|&)apikey=([^&]*)/.exec(query);
  return match?.[1] === undefined ? undefined : decode(match[1]);
}

/** Returns the problem for a caller without usable credentials. */
export function refused(refusal: Refusal): Problem {
  switch (refusal.reason) {
    case 'no-key':
      return noApiKey();
    case 'unknown-key':
      return unknownApiKey();
    case 'restricted':
      return sessionRestricted();
    case 'session-ended':
      return badToken('PGRST303', 'The session of this token has ended');
    case 'bad-token': {
      const { kind, message, details } = refusal.fault;
      return badToken(kind === 'unreadable' ? 'PGRST301' : 'PGRST303', message, details);
    }
  }
}

function fail(
  context: FeatureContext,
  request: FastifyRequest,
  reply: FastifyReply,
  caller: Caller | undefined,
  error: unknown,
): void {
  try {
    // The error of a cancelled statement is replaced by the reason of the cancellation.
    const reason = request.scope.aborted;
    const given = request.scope.answer?.isStopped === true ? noRoomForAnswer() : error;
    const cause = reason === undefined ? given : new Abort(reason);
    const isAnonymous = caller === undefined || (caller.user === null && caller.role === 'anon');
    const isReading = request.method === 'GET' || request.method === 'HEAD';
    const problem = toProblem(cause, {
      isAnonymous,
      readableColumns:
        caller && isReading
          ? (name) => readableColumns(exposed(context.snapshot()), name, caller.role)
          : undefined,
    });
    if (problem) sendProblem(reply, problem);
    else sendFault(reply, error, request.scope.id, context.log);
  } catch (responseError) {
    context.log.error({ err: responseError, requestId: request.id }, 'an error could not be answered');
    reply.raw.destroy();
  }
}
