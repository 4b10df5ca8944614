// Signs in with the secret key, or under `svc dev` without it from the same machine. Signs out.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { Limiter, type Bucket } from '../../auth/rate-limit.ts';
import { keyMatcher } from '../../identity/api-key.ts';
import type { Session } from '../contract.ts';
import type { DashboardContext } from '../dashboard-context.ts';
import { readJson } from '../request.ts';
import type { Handler, Route } from './route.ts';
import { isLocal, ownOrigin } from '../session/own-origin.ts';
import { notLocal, wrongKey } from '../problem.ts';
import {
  readCookie,
  writeCookie,
  type DashboardSession,
  type DashboardSessions,
} from '../session/session.ts';

/** Limits attempts with wrong keys per address. The key cannot be guessed, but failed attempts should stay cheap. */
const SIGN_INS: Bucket = { name: 'dashboard_sign_in', rate: 30, perSeconds: 300, burst: 30 };

const SecretKey = z.strictObject({ secret_key: z.string().max(1024) });

export function sessionRoutes(context: DashboardContext, sessions: DashboardSessions): readonly Route[] {
  const limiter = new Limiter(context.owner, () => ({ limits: 'on', mailsPerHour: 0 }));
  const match = keyMatcher(context.keys);

  const describe = (request: FastifyRequest, session: DashboardSession | undefined): Session => {
    const { project } = context.snapshot().config;
    return {
      signedIn: session !== undefined,
      localSignIn: context.dev && isLocal(request),
      mode: context.mode,
      csrf: session?.csrf ?? '',
      project: session ? { name: project.name ?? 'svc', dev: context.dev } : null,
      superseded: session ? (context.superseded?.() ?? null) : null,
    };
  };
  const setCookie = (request: FastifyRequest, reply: FastifyReply, token: string | null): void => {
    const isSecure =
      request.client.proto === 'https' || ownOrigin(request, context.baseUrl())?.protocol === 'https:';
    void reply.header('set-cookie', writeCookie(token, isSecure));
  };
  const open: Handler = async (request, reply) => {
    const { token, session } = await sessions.open();
    setCookie(request, reply, token);
    return describe(request, session);
  };

  const show: Handler = async (request) =>
    describe(request, await sessions.find(readCookie(request.headers.cookie)));

  const signIn: Handler = async (request, reply) => {
    const { secret_key: key } = await readJson(request, SecretKey);
    const { id, client } = request;
    const from = { client, now: context.now() };
    // Count before the comparison, so that parallel attempts count too.
    await limiter.byAddress(SIGN_INS, from);
    if (match(key) !== 'secret') {
      context.log.warn(
        { requestId: id, client: client.address },
        'a dashboard sign-in with a wrong key was refused',
      );
      throw wrongKey();
    }
    await limiter.refundAddress(SIGN_INS, from);
    return await open(request, reply);
  };

  const signInLocally: Handler = (request, reply) => {
    if (!context.dev || !isLocal(request)) throw notLocal();
    return open(request, reply);
  };

  const signOut: Handler = async (request, reply) => {
    if (request.dashboardSession) await sessions.end(request.dashboardSession);
    setCookie(request, reply, null);
  };

  // Sign-in uses reserved capacity, so that an operator can inspect an overloaded service.
  const reserved = { reserved: true };
  return [
    ['GET', '/session', 'public', show, reserved],
    ['POST', '/session', 'public', signIn, reserved],
    ['POST', '/session/local', 'public', signInLocally, reserved],
    ['DELETE', '/session', 'read', signOut],
  ];
}
