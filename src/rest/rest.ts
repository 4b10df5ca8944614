// The data API. A request becomes an ApiRequest (parse), a plan checked against the catalog (plan), one
// statement (sql), one round trip as the caller, and a response whose body PostgreSQL made.
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Feature, FeatureContext } from '../http/feature.ts';
import { resolveDataCaller, type Caller, type Refusal } from '../identity/caller.ts';
import type { Presented } from '../identity/credentials.ts';
import { Abort, type Problem } from '../problem/problem.ts';
import { call } from './actions/call.ts';
import { describe } from './actions/describe.ts';
import { options } from './actions/options.ts';
import { read } from './actions/read.ts';
import { write } from './actions/write.ts';
import { PlanCache, type Exchange } from './exchange.ts';
import { exposed } from './plan/exposed.ts';
import { badToken, noApiKey, unknownApiKey } from './problem.ts';
import { readRequest } from './request/api-request.ts';
import { decode } from './request/parse-query.ts';
import { sendFault, sendProblem, toProblem } from './respond/wire-error.ts';

export const rest: Feature = (context) => async (app) => {
  const plans = new PlanCache();
  const prefixLength = app.prefix.length;

  // No await before the statement is on its way unless something has to be waited for.
  const handle = (request: FastifyRequest, reply: FastifyReply): void => {
    let caller: Caller | undefined;
    const failed = (error: unknown): void => {
      try {
        fail(context, request, reply, caller, error);
      } catch (unsayable) {
        context.log.error({ err: unsayable, requestId: request.id }, 'an error could not be answered');
        reply.raw.destroy();
      }
    };
    try {
      const [path, query] = splitUrl(request.raw.url ?? '', prefixLength);
      const key = queryKey(query);
      const proceed = (presented: Presented): Promise<void> => {
        const isOptions = request.method === 'OPTIONS';
        if (!isOptions || !isWithoutKey(presented)) caller = callerOf(presented);
        const current = exposed(context.snapshot());
        const parsed = readRequest(request.method, path, query, request.headers, current.schemas);
        if (!caller) return options({ request: parsed, exposed: current, reply });
        return act({
          context,
          exposed: current,
          plans,
          request: parsed,
          caller,
          reply,
          scope: request.scope,
          body: request.body,
        });
      };
      const known = context.credentials.readKnown(request.headers, key);
      const answered = known ? proceed(known) : context.credentials.read(request.headers, key).then(proceed);
      answered.catch(failed);
    } catch (error) {
      failed(error);
    }
  };

  // What reaches this is not ours to foresee: the deadline of the request, mostly.
  app.setErrorHandler((error, request, reply) => fail(context, request, reply, undefined, error));
  const config = { writesHead: true };
  app.all('/*', { config }, handle);
  app.all('/', { config }, handle);
};

function act(exchange: Exchange): Promise<void> {
  const { action } = exchange.request;
  switch (action) {
    case 'read':
      return read(exchange);
    case 'call':
      return call(exchange);
    case 'describe':
      return describe(exchange);
    case 'options':
      return options(exchange);
    case 'insert':
    case 'update':
    case 'put':
    case 'delete':
      return write(exchange, action);
  }
}

function splitUrl(url: string, prefixLength: number): readonly [path: string, query: string] {
  const mark = url.indexOf('?', prefixLength);
  return mark < 0 ? [url.slice(prefixLength), ''] : [url.slice(prefixLength, mark), url.slice(mark + 1)];
}

function callerOf(presented: Presented): Caller {
  const resolution = resolveDataCaller(presented);
  if (resolution.ok) return resolution.caller;
  throw refused(resolution.refusal);
}

function isWithoutKey(presented: Presented): boolean {
  const resolution = resolveDataCaller(presented);
  return !resolution.ok && resolution.refusal.reason === 'no-key';
}

function queryKey(query: string): string | undefined {
  if (!query.includes('apikey=')) return undefined;
  const match = /(?:^|&)apikey=([^&]*)/.exec(query);
  return match?.[1] === undefined ? undefined : decode(match[1]);
}

function refused(refusal: Refusal): Problem {
  switch (refusal.reason) {
    case 'no-key':
      return noApiKey();
    case 'unknown-key':
      return unknownApiKey();
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
  // The statement was cancelled on purpose: what it says about that is not the answer.
  const reason = request.scope.aborted;
  const cause = reason === undefined ? error : new Abort(reason);
  const problem = toProblem(cause, {
    isAnonymous: caller === undefined || (caller.user === null && caller.role === 'anon'),
    hasChecks: true,
  });
  if (problem) sendProblem(reply, problem);
  else if (!(cause instanceof Abort)) sendFault(reply, error, request.scope.id, context.log);
  else if (!reply.sent) void reply.code(499).send();
}
