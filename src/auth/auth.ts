// `/auth/v1` as a feature: the table of its routes, who may use each, and its error dialect. What an action does
// is in `actions/`, one file each.
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import type { FeatureContext } from '../http/feature.ts';
import { must } from '../lib/assert.ts';
import { databaseFailure } from '../postgres/pg-error.ts';
import { Abort, Problem } from '../problem/problem.ts';
import * as adminFactors from './actions/admin/factors.ts';
import { listAudit, listMails } from './actions/admin/log.ts';
import * as adminUsers from './actions/admin/users.ts';
import { authorize, authorizeLink } from './actions/authorize.ts';
import { callback } from './actions/callback.ts';
import * as factors from './actions/factors.ts';
import { generateLink } from './actions/admin/generate-link.ts';
import { confirmLink } from './actions/confirm-link.ts';
import { unlinkIdentity } from './actions/identities.ts';
import { invite } from './actions/admin/invite.ts';
import { logout } from './actions/logout.ts';
import { health, jwks, openidConfiguration, settings } from './actions/metadata.ts';
import { magiclink, otp } from './actions/otp.ts';
import { reauthenticate } from './actions/reauthenticate.ts';
import { recover } from './actions/recover.ts';
import { resend } from './actions/resend.ts';
import { signup } from './actions/signup.ts';
import { token } from './actions/token/token.ts';
import { getUser, updateOwnUser } from './actions/user.ts';
import { verify, verifyLink, verifyNothing } from './actions/verify.ts';
import type { AuthContext } from './auth-context.ts';
import { requireAdmin, requireKey, requireUser, type SignedIn } from './access.ts';
import { Outbox } from './mail/outbox.ts';
import { startMaintenance, type Maintenance } from './maintenance.ts';
import { PasswordHasher } from './users/password.ts';
import {
  databaseUnavailable,
  featureOff,
  methodNotAllowed,
  requestTimeout,
  routeNotFound,
  toWire,
  unexpectedFailure,
  wireVersion,
} from './problem.ts';
import { providerSet } from './provider/oauth-provider.ts';
import { Limiter } from './rate-limit.ts';
import { json, readRequest, sendAnswer, type Answer, type AuthRequest } from './http/request.ts';
import { readAuthSettings, type AuthSettings } from './settings.ts';

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE' | 'PATCH' | 'HEAD';
type Action = (auth: AuthContext, request: AuthRequest) => Promise<Answer>;
type UserAction = (auth: AuthContext, request: AuthRequest, signedIn: SignedIn) => Promise<Answer>;

type Route = readonly [Method, string, ...Access];
type Access =
  /** Browser navigations and public metadata: they cannot carry a key. */
  | readonly ['none', Action]
  | readonly ['key', Action]
  | readonly ['user', UserAction]
  | readonly ['admin', Action];

const off =
  (problem: () => Error): Action =>
  () =>
    Promise.reject(problem());

const ROUTES: readonly Route[] = [
  ['POST', '/signup', 'key', signup],
  ['POST', '/token', 'key', token],
  ['POST', '/otp', 'key', otp],
  ['POST', '/magiclink', 'key', magiclink],
  ['GET', '/verify', 'none', verifyLink],
  ['HEAD', '/verify', 'none', verifyNothing],
  // The key is asked for inside: the button of the link's page cannot carry one.
  ['POST', '/verify', 'none', verify],
  ['POST', '/recover', 'key', recover],
  ['POST', '/resend', 'key', resend],
  ['GET', '/reauthenticate', 'user', reauthenticate],
  ['POST', '/reauthenticate', 'user', reauthenticate],
  ['POST', '/logout', 'user', logout],
  ['GET', '/user', 'user', getUser],
  ['PUT', '/user', 'user', updateOwnUser],

  ['GET', '/user/identities/authorize', 'user', authorizeLink],
  // The button of the page that asks before an identity joins an account.
  ['POST', '/user/identities/confirm', 'none', confirmLink],
  ['DELETE', '/user/identities/:id', 'user', unlinkIdentity],
  ['GET', '/authorize', 'none', authorize],
  ['GET', '/callback', 'none', callback],
  ['POST', '/callback', 'none', callback],
  ['GET', '/callback/:provider', 'none', callback],
  ['POST', '/callback/:provider', 'none', callback],

  ['GET', '/admin/users', 'admin', adminUsers.listUsers],
  ['POST', '/admin/users', 'admin', adminUsers.createUser],
  ['GET', '/admin/users/:id', 'admin', adminUsers.getUserById],
  ['PUT', '/admin/users/:id', 'admin', adminUsers.updateUserById],
  ['DELETE', '/admin/users/:id', 'admin', adminUsers.deleteUser],

  ['POST', '/factors', 'user', factors.enroll],
  ['POST', '/factors/:id/challenge', 'user', factors.challenge],
  ['POST', '/factors/:id/verify', 'user', factors.verifyFactor],
  ['DELETE', '/factors/:id', 'user', factors.unenroll],
  ['GET', '/admin/users/:id/factors', 'admin', adminFactors.listFactors],
  ['PUT', '/admin/users/:id/factors/:factor', 'admin', adminFactors.updateFactor],
  ['DELETE', '/admin/users/:id/factors/:factor', 'admin', adminFactors.deleteFactor],

  ['POST', '/invite', 'admin', invite],
  ['POST', '/admin/generate_link', 'admin', generateLink],
  ['GET', '/admin/audit', 'admin', listAudit],
  ['GET', '/admin/mails', 'admin', listMails],

  ['GET', '/settings', 'key', settings],
  ['GET', '/health', 'none', health],
  ['GET', '/.well-known/jwks.json', 'none', jwks],
  ['GET', '/.well-known/openid-configuration', 'none', openidConfiguration],

  // Families the product does not serve; clients get an answer they know.
  ['POST', '/sso', 'key', off(featureOff.saml)],
  ['GET', '/sso/saml/metadata', 'none', off(featureOff.saml)],
  ['POST', '/sso/saml/acs', 'none', off(featureOff.saml)],
  ['GET', '/admin/sso/providers', 'admin', off(featureOff.saml)],
  ['POST', '/admin/sso/providers', 'admin', off(featureOff.saml)],
  ['POST', '/passkeys/registration/options', 'key', off(featureOff.passkey)],
  ['POST', '/passkeys/registration/verify', 'key', off(featureOff.passkey)],
  ['POST', '/passkeys/authentication/options', 'key', off(featureOff.passkey)],
  ['POST', '/passkeys/authentication/verify', 'key', off(featureOff.passkey)],
  ['GET', '/passkeys', 'key', off(featureOff.passkey)],
  ['PATCH', '/passkeys/:id', 'key', off(featureOff.passkey)],
  ['DELETE', '/passkeys/:id', 'key', off(featureOff.passkey)],
  ['GET', '/admin/users/:id/passkeys', 'admin', () => Promise.resolve(json([]))],
  ['DELETE', '/admin/users/:id/passkeys/:passkey', 'admin', off(featureOff.passkey)],
  ['GET', '/oauth/authorize', 'none', off(featureOff.feature)],
  ['POST', '/oauth/token', 'none', off(featureOff.feature)],
  ['GET', '/oauth/userinfo', 'none', off(featureOff.feature)],
  ['POST', '/oauth/clients/register', 'none', off(featureOff.feature)],
  ['GET', '/oauth/authorizations/:id', 'key', off(featureOff.feature)],
  ['POST', '/oauth/authorizations/:id/consent', 'key', off(featureOff.feature)],
  ['GET', '/user/oauth/grants', 'key', off(featureOff.feature)],
  ['DELETE', '/user/oauth/grants', 'key', off(featureOff.feature)],
  ['GET', '/admin/oauth/clients', 'admin', off(featureOff.feature)],
  ['POST', '/admin/oauth/clients', 'admin', off(featureOff.feature)],
  ['GET', '/admin/oauth/clients/:id', 'admin', off(featureOff.feature)],
  ['PUT', '/admin/oauth/clients/:id', 'admin', off(featureOff.feature)],
  ['DELETE', '/admin/oauth/clients/:id', 'admin', off(featureOff.feature)],
  ['POST', '/admin/oauth/clients/:id/regenerate_secret', 'admin', off(featureOff.feature)],
  ['GET', '/admin/custom-providers', 'admin', off(featureOff.feature)],
  ['POST', '/admin/custom-providers', 'admin', off(featureOff.feature)],
  ['GET', '/admin/custom-providers/:id', 'admin', off(featureOff.feature)],
  ['PUT', '/admin/custom-providers/:id', 'admin', off(featureOff.feature)],
  ['DELETE', '/admin/custom-providers/:id', 'admin', off(featureOff.feature)],
];

export function auth(context: FeatureContext): FastifyPluginAsync {
  return async (app) => {
    const state = makeContext(context);
    for (const route of ROUTES) addRoute(app, context, state, route);
    addErrors(app, state);
    let maintenance: Maintenance | undefined;
    app.addHook('onReady', async () => {
      const begin = (): void => {
        state.outbox.start();
        maintenance = startMaintenance(state);
      };
      if (context.whenServing) context.whenServing(begin);
      else begin();
      await Promise.resolve();
    });
    app.addHook('onClose', async () => {
      await Promise.all([state.outbox.close(), maintenance?.close()]);
    });
    await Promise.resolve();
  };
}

export function makeContext(context: FeatureContext): AuthContext {
  const { owner: db, now, log, keyring } = context;
  let read: { readonly config: unknown; readonly settings: AuthSettings } | undefined;
  const currentSettings = (): AuthSettings => {
    const { config } = context.snapshot();
    if (read?.config !== config)
      read = { config, settings: readAuthSettings(config, context.env, context.dev) };
    return read.settings;
  };
  const mailBox = keyring.box('mail');
  return {
    db,
    settings: currentSettings,
    now,
    log,
    keyring,
    boxes: {
      sessionKey: keyring.box('session key'),
      totpSecret: keyring.box('totp secret'),
      providerToken: keyring.box('provider token'),
      mail: mailBox,
    },
    codeMac: keyring.mac('one-time code'),
    signingKeys: context.signingKeys,
    hasher: new PasswordHasher(),
    limiter: new Limiter(db, () => currentSettings().limits),
    outbox: new Outbox({ db, box: mailBox, settings: () => currentSettings().mail, now, log }),
    providers: providerSet(() => currentSettings().oauth, now),
    baseUrl: context.baseUrl,
    dev: context.dev,
  };
}

function addRoute(app: FastifyInstance, context: FeatureContext, state: AuthContext, route: Route): void {
  const [method, url] = route;
  app.route({
    method,
    url,
    // HEAD on a link must do nothing; what a GET would do is never done for it.
    exposeHeadRoute: false,
    handler: async (request, reply) => sendAnswer(reply, await answer(context, state, route, request)),
  });
}

async function answer(
  context: FeatureContext,
  state: AuthContext,
  [, , access, action]: Route,
  fastifyRequest: FastifyRequest,
): Promise<Answer> {
  const { headers, query } = fastifyRequest;
  const presented = await context.credentials.read(headers, queryKey(fastifyRequest.method, query));
  if (access !== 'none') requireKey(presented);
  if (access === 'admin') requireAdmin(presented);
  const request = await readRequest(state, fastifyRequest, presented);
  if (access !== 'user') return await action(state, request);
  return await action(state, request, await requireUser(state, presented, request.now));
}

/** `?apikey=` counts on GET only: a link can carry nothing else. */
function queryKey(method: string, query: unknown): string | undefined {
  if (method !== 'GET' || typeof query !== 'object' || query === null || !('apikey' in query))
    return undefined;
  return typeof query.apikey === 'string' ? query.apikey : undefined;
}

function addErrors(app: FastifyInstance, state: AuthContext): void {
  app.setErrorHandler((error, request, reply) => {
    void sendProblem(reply, request, toProblem(error, state, request));
  });
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?')[0] ?? '';
    const methods = ROUTES.filter(([, url]) => matches(url, path.replace(/^\/auth\/v1/, ''))).map(
      ([method]) => method,
    );
    void sendProblem(
      reply,
      request,
      methods.length > 0 ? methodNotAllowed([...new Set(methods)].join(', ')) : routeNotFound(),
    );
  });
}

function matches(pattern: string, path: string): boolean {
  const [expected, actual] = [pattern.split('/'), path.replace(/\/$/, '').split('/')];
  return (
    expected.length === actual.length &&
    expected.every((part, index) => part.startsWith(':') || part === actual[index])
  );
}

async function sendProblem(
  reply: FastifyReply,
  request: FastifyRequest,
  problem: Problem,
): Promise<FastifyReply> {
  request.scope.errorCode = problem.code;
  const version = wireVersion(request.headers['x-supabase-api-version']);
  return await sendAnswer(reply, {
    status: problem.status,
    body: toWire(problem, version, request.id),
    headers: {
      ...problem.headers,
      'x-sb-error-code': problem.code,
      // Without the echo the client does not read the code.
      ...(version === 'initial' ? {} : { 'x-supabase-api-version': version }),
    },
  });
}

function toProblem(error: unknown, state: AuthContext, request: FastifyRequest): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof Abort) return requestTimeout();
  // 4xx of the framework itself: a URL or header it could not read.
  const status = error instanceof Error && 'statusCode' in error ? error.statusCode : undefined;
  if (typeof status === 'number' && status < 500) {
    return new Problem(
      'validation_failed',
      status,
      must(error instanceof Error ? error.message : '', 'message'),
    );
  }
  // A client should try these again: a 4xx here would sign everybody out.
  const failure = databaseFailure(error);
  if (failure && failure.status !== 500) {
    state.log.error({ err: error, requestId: request.id }, failure.message);
    return databaseUnavailable(failure, error);
  }
  state.log.error({ err: error, requestId: request.id }, 'fault');
  return unexpectedFailure();
}
