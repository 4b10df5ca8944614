// The data API. A request becomes an ApiRequest (parse), a plan checked against the catalog (plan), one
// statement (sql), one round trip as the caller, and a response whose body PostgreSQL made.
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Feature, FeatureContext } from '../http/feature.ts';
import { resolveDataCaller, type Caller, type Refusal } from '../identity/caller.ts';
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

  const handle = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    let caller: Caller | undefined;
    try {
      const [path, query] = splitUrl(request.raw.url ?? '', prefixLength);
      caller = await callerOf(context, request, query);
      const current = exposed(context.snapshot());
      const parsed = readRequest(request.method, path, query, request.headers, current.schemas);
      return await act({
        context,
        exposed: current,
        plans,
        request: parsed,
        caller,
        reply,
        scope: request.scope,
        body: request.body,
      });
    } catch (error) {
      return fail(context, request, reply, caller, error);
    }
  };

  // What reaches this is not ours to foresee: the deadline of the request, mostly.
  app.setErrorHandler((error, request, reply) => fail(context, request, reply, undefined, error));
  app.all('/*', handle);
  app.all('/', handle);
};

async function act(exchange: Exchange): Promise<FastifyReply> {
  const { action } = exchange.request;
  switch (action) {
    case 'read':
      return await read(exchange);
    case 'call':
      return await call(exchange);
    case 'describe':
      return await describe(exchange);
    case 'options':
      return options(exchange);
    case 'insert':
    case 'update':
    case 'put':
    case 'delete':
      return await write(exchange, action);
  }
}

function splitUrl(url: string, prefixLength: number): readonly [path: string, query: string] {
  const mark = url.indexOf('?', prefixLength);
  return mark < 0 ? [url.slice(prefixLength), ''] : [url.slice(prefixLength, mark), url.slice(mark + 1)];
}

async function callerOf(context: FeatureContext, request: FastifyRequest, query: string): Promise<Caller> {
  const presented = await context.credentials.read(request.headers, queryKey(query));
  const resolution = resolveDataCaller(presented);
  if (resolution.ok) return resolution.caller;
  throw refused(resolution.refusal);
}

function queryKey(query: string): string | undefined {
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
): FastifyReply {
  // The statement was cancelled on purpose: what it says about that is not the answer.
  const reason = request.scope.aborted;
  const cause = reason === undefined ? error : new Abort(reason);
  const problem = toProblem(cause, {
    isAnonymous: caller === undefined || (caller.user === null && caller.role === 'anon'),
    hasChecks: true,
  });
  if (problem) return sendProblem(reply, problem);
  if (cause instanceof Abort) return reply.code(499).send();
  return sendFault(reply, error, request.scope.id, context.log);
}
