// `/functions/v1/<name>`: find the function, authorize the caller, check capacity, run, respond.
import { METHODS } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { readBody } from '../../http/body.ts';
import { isPreflight } from '../../http/cors.ts';
import type { FeatureContext } from '../../http/feature.ts';
import { isRestrictedBearer, resolveFunctionCaller, type Caller } from '../../identity/caller.ts';
import { callerKey } from '../../lib/limits/caller-key.ts';
import { Abort } from '../../problem/problem.ts';
import type { DrainGate } from '../drain-gate.ts';
import type { ServedFunction } from '../generation.ts';
import { bodyTooSlow, functionNotFound, sessionRestricted, signInRequired } from '../problem.ts';
import type { Call } from '../runtime/call.ts';
import type { WorkerPool } from '../runtime/worker-pool.ts';
import type { CallerClaims, RequestHead } from '../worker/protocol.ts';
import { answerError, answerProblem, respond } from './respond.ts';

export type Service = {
  readonly find: (name: string) => ServedFunction | undefined;
  readonly admission: DrainGate;
  readonly pool: WorkerPool;
};

export function addRoutes(app: FastifyInstance, context: FeatureContext, service: Service): void {
  app.setErrorHandler((error, request, reply) => answerError(error, request, reply, context));
  app.setNotFoundHandler((request, reply) => answerProblem(request, reply, functionNotFound('')));
  const handler = (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> =>
    invoke(context, service, request, reply);
  const known = new Set(app.supportedMethods);
  for (const method of METHODS) {
    // Node never delivers CONNECT as a request.
    if (!known.has(method) && method !== 'CONNECT') app.addHttpMethod(method, { hasBody: true });
  }
  // The handler parses the body, so Fastify must not reject an unknown content type, or a missing one with QUERY.
  // The worker gets the original headers from rawHeaders.
  app.addHook('onRequest', (request, _reply, done) => {
    request.raw.headers['content-type'] = 'application/octet-stream';
    done();
  });
  const config = { deadline: 'none', cors: 'handler' } as const;
  app.all('/:name', { config }, handler);
  app.all('/:name/*', { config }, handler);
}

async function invoke(
  context: FeatureContext,
  { find, admission, pool }: Service,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { name } = request.params as { readonly name: string };
  const declared = find(name);
  if (!declared?.fn.http) throw functionNotFound(name);
  const { fn } = declared;
  request.scope.functionName = name;
  // No API key is needed; without a valid user token the caller is anonymous.
  const { authorization } = request.headers;
  const presented = await context.credentials.read({ authorization });
  const caller = resolveFunctionCaller(presented);
  if (fn.authRequired && !caller.user) {
    // A preflight never has a token. The handler of such a function does not run without a user, not even for this.
    if (isPreflight(request)) return reply.code(200).send();
    throw isRestrictedBearer(presented) ? sessionRestricted() : signInRequired();
  }
  const key = callerKey(caller, request.client.address);
  pool.assertRoom(key);
  // Ended while the credentials were read: it would never be released.
  if (reply.raw.destroyed) throw new Abort('client-gone');
  const release = admission.accept();
  reply.raw.once('close', release);
  const body = await readWholeBody(context, request);
  const call: Call = {
    functionName: name,
    requestId: request.id,
    caller: key,
    head: encodeHead(request, caller, declared),
    body,
    serviceRole: fn.authRequired,
    timeoutMs: fn.timeoutMs,
  };
  const { scope } = request;
  if (scope.aborted) throw new Abort(scope.aborted);
  const running = pool.run(call);
  scope.cancel = () => {
    const reason = scope.aborted;
    // The body is here.
    running.cancel(reason === undefined || reason === 'slow-body' ? 'client-gone' : reason);
  };
  return await respond(request, reply, await running.answer);
}

async function readWholeBody(context: FeatureContext, request: FastifyRequest): Promise<Buffer> {
  const { headers, raw } = request;
  if (headers['content-length'] === undefined && headers['transfer-encoding'] === undefined) {
    return Buffer.alloc(0);
  }
  const { maxBodyBytes, timeouts } = context.snapshot().config.server;
  let timer: NodeJS.Timeout | undefined;
  const tooSlow = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(bodyTooSlow()), timeouts.requestMs);
  });
  try {
    return await Promise.race([readBody(raw, maxBodyBytes, headers['content-length']), tooSlow]);
  } finally {
    clearTimeout(timer);
  }
}

function encodeHead(
  request: FastifyRequest,
  { user, token }: Caller,
  { fn, envJson }: ServedFunction,
): string {
  const url = request.raw.url ?? '';
  const mark = url.indexOf('?');
  const claims: CallerClaims | null =
    user && token !== null
      ? {
          ...(user.sub === null ? {} : { sub: user.sub }),
          role: user.role,
          ...(user.email === null ? {} : { email: user.email }),
          jwt: token,
        }
      : null;
  const head: Omit<RequestHead, 'env'> = {
    functionName: fn.name,
    requestId: request.id,
    method: request.method,
    path: mark < 0 ? url : url.slice(0, mark),
    rawQuery: mark < 0 ? '' : url.slice(mark + 1),
    rawHeaders: request.raw.rawHeaders,
    clientAddress: request.client.address,
    claims,
    serviceRole: fn.authRequired,
  };
  return `${JSON.stringify(head).slice(0, -1)},"env":${envJson}}`;
}
