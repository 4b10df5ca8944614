// Signing in and out: with the secret key, or without one for the person at this machine under `svc dev`.
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { Limiter, type Bucket } from '../../auth/rate-limit.ts';
import { keyMatcher } from '../../identity/api-key.ts';
import type { Session } from '../contract.ts';
import type { DashboardContext } from '../dashboard-context.ts';
import { readJson } from '../json-body.ts';
import { isLocal, ownOrigin } from './own-origin.ts';
import { notLocal, wrongKey } from '../problem.ts';
import { readCookie, writeCookie, type DashboardSession, type DashboardSessions } from './session.ts';

/** Wrong keys, by address. A key cannot be guessed at any speed; this keeps the attempt cheap for us. */
const SIGN_INS: Bucket = { name: 'dashboard_sign_in', rate: 30, perSeconds: 300, burst: 30 };

const SecretKey = z.strictObject({ secret_key: z.string().max(1024) });

export function sessionRoutes(
  app: FastifyInstance,
  context: DashboardContext,
  sessions: DashboardSessions,
): void {
  const limiter = new Limiter(context.owner, () => ({ limits: 'on', mailsPerHour: 0 }));
  const match = keyMatcher(context.keys);
  const config = { dashboard: 'public' as const };

  const describe = (request: FastifyRequest, session: DashboardSession | undefined): Session => {
    const { project } = context.snapshot().config;
    return {
      signedIn: session !== undefined,
      localSignIn: context.dev && isLocal(request),
      mode: context.mode,
      csrf: session?.csrf ?? '',
      project: session ? { name: project.name ?? 'svc', dev: context.dev } : null,
    };
  };
  const isSecure = (request: FastifyRequest): boolean =>
    request.protocol === 'https' || ownOrigin(request, context.baseUrl())?.protocol === 'https:';

  app.get('/session', { config }, async (request, reply) => {
    const session = await sessions.find(readCookie(request.headers.cookie));
    return await reply.send(describe(request, session));
  });

  app.post('/session', { config }, async (request, reply) => {
    const { secret_key: key } = await readJson(request, SecretKey);
    const from = { ip: request.ip, now: context.now() };
    // Taken before the comparison, so that tries in parallel count.
    await limiter.byAddress(SIGN_INS, from);
    if (match(key) !== 'secret') {
      context.log.warn({ requestId: request.id, ip: request.ip }, 'a wrong key was tried on the dashboard');
      throw wrongKey();
    }
    await limiter.refund(SIGN_INS, request.ip, from);
    const { token, session } = await sessions.open();
    void reply.header('set-cookie', writeCookie(token, isSecure(request)));
    return await reply.send(describe(request, session));
  });

  app.post('/session/local', { config }, async (request, reply) => {
    if (!context.dev || !isLocal(request)) throw notLocal();
    const { token, session } = await sessions.open();
    void reply.header('set-cookie', writeCookie(token, isSecure(request)));
    return await reply.send(describe(request, session));
  });

  app.delete('/session', async (request, reply) => {
    if (request.dashboardSession) await sessions.end(request.dashboardSession);
    return await reply
      .code(204)
      .header('set-cookie', writeCookie(null, isSecure(request)))
      .send();
  });
}
