// `/auth/v1` as a feature: the table of its routes and the access that each needs. An action is a function in
// `actions/`. `http/fastify.ts` converts requests, responses and errors.
import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import type { FeatureContext } from '../http/feature.ts';
import type { Presented } from '../identity/credentials.ts';
import { requireAdmin, requireApiKey, requireSession, requireUser, type UserRequest } from './access.ts';
import * as adminFactors from './actions/admin/factors.ts';
import { generateLink } from './actions/admin/generate-link.ts';
import { invite } from './actions/admin/invite.ts';
import { listAudit, listMails } from './actions/admin/log.ts';
import * as adminUsers from './actions/admin/users.ts';
import { authorize, authorizeLink } from './actions/authorize.ts';
import { callback } from './actions/callback.ts';
import { confirmLink } from './actions/confirm-identity-link.ts';
import * as factors from './actions/factors.ts';
import { unlinkIdentity } from './actions/identities.ts';
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
import { makeContext, type AuthContext } from './auth-context.ts';
import { addErrorHandlers, queryKey, readRequest, sendAnswer } from './http/fastify.ts';
import { json, type Answer, type AuthRequest } from './http/request.ts';
import { startMaintenance, type Maintenance } from './maintenance.ts';
import { problems } from './problem.ts';
import type { PasswordHasher } from './users/password.ts';

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE' | 'PATCH' | 'HEAD';
type Action = (request: AuthRequest) => Promise<Answer> | Answer;
type UserAction = (request: UserRequest) => Promise<Answer> | Answer;

type Route = readonly [Method | readonly Method[], string, ...Access];
type Access =
  /** Browser navigations and public metadata, which cannot carry a key. */
  | readonly ['none', Action]
  | readonly ['key', Action]
  | readonly ['user', UserAction]
  /** Same as `user`, but also accepts a restricted session. */
  | readonly ['session', UserAction]
  | readonly ['admin', Action];

const off = (problem: () => Error): Action => {
  return () => {
    throw problem();
  };
};

const samlOff = off(problems.samlDisabled);
const passkeyOff = off(problems.passkeyDisabled);
const featureOff = off(problems.featureDisabled);

/** All routes, including those that description.ts describes. */
export const ROUTES: readonly Route[] = [
  ['POST', '/signup', 'key', signup],
  ['POST', '/token', 'key', token],
  ['POST', '/otp', 'key', otp],
  ['POST', '/magiclink', 'key', magiclink],
  ['GET', '/verify', 'none', verifyLink],
  ['HEAD', '/verify', 'none', verifyNothing],
  // The action checks the key itself, because the button on the link's page cannot send one.
  ['POST', '/verify', 'none', verify],
  ['POST', '/recover', 'key', recover],
  ['POST', '/resend', 'key', resend],
  [['GET', 'POST'], '/reauthenticate', 'user', reauthenticate],
  ['POST', '/logout', 'session', logout],
  ['GET', '/user', 'session', getUser],
  ['PUT', '/user', 'session', updateOwnUser],

  ['GET', '/user/identities/authorize', 'user', authorizeLink],
  // Target of the button on the page that asks before an identity is linked.
  ['POST', '/user/identities/confirm', 'none', confirmLink],
  ['DELETE', '/user/identities/:id', 'user', unlinkIdentity],
  ['GET', '/authorize', 'none', authorize],
  [['GET', 'POST'], '/callback', 'none', callback],
  [['GET', 'POST'], '/callback/:provider', 'none', callback],

  ['GET', '/admin/users', 'admin', adminUsers.listUsers],
  ['POST', '/admin/users', 'admin', adminUsers.createUser],
  ['GET', '/admin/users/:id', 'admin', adminUsers.getUserById],
  ['PUT', '/admin/users/:id', 'admin', adminUsers.updateUserById],
  ['DELETE', '/admin/users/:id', 'admin', adminUsers.deleteUser],

  ['POST', '/factors', 'user', factors.enroll],
  ['POST', '/factors/:id/challenge', 'session', factors.challenge],
  ['POST', '/factors/:id/verify', 'session', factors.verifyFactor],
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

  // Route families that svc does not offer. Clients get an error that they understand.
  ['POST', '/sso', 'key', samlOff],
  ['GET', '/sso/saml/metadata', 'none', samlOff],
  ['POST', '/sso/saml/acs', 'none', samlOff],
  [['GET', 'POST'], '/admin/sso/providers', 'admin', samlOff],
  ['POST', '/passkeys/registration/options', 'key', passkeyOff],
  ['POST', '/passkeys/registration/verify', 'key', passkeyOff],
  ['POST', '/passkeys/authentication/options', 'key', passkeyOff],
  ['POST', '/passkeys/authentication/verify', 'key', passkeyOff],
  ['GET', '/passkeys', 'key', passkeyOff],
  [['PATCH', 'DELETE'], '/passkeys/:id', 'key', passkeyOff],
  ['GET', '/admin/users/:id/passkeys', 'admin', () => json([])],
  ['DELETE', '/admin/users/:id/passkeys/:passkey', 'admin', passkeyOff],
  ['GET', '/oauth/authorize', 'none', featureOff],
  ['POST', '/oauth/token', 'none', featureOff],
  ['GET', '/oauth/userinfo', 'none', featureOff],
  ['POST', '/oauth/clients/register', 'none', featureOff],
  ['GET', '/oauth/authorizations/:id', 'key', featureOff],
  ['POST', '/oauth/authorizations/:id/consent', 'key', featureOff],
  [['GET', 'DELETE'], '/user/oauth/grants', 'key', featureOff],
  [['GET', 'POST'], '/admin/oauth/clients', 'admin', featureOff],
  [['GET', 'PUT', 'DELETE'], '/admin/oauth/clients/:id', 'admin', featureOff],
  ['POST', '/admin/oauth/clients/:id/regenerate_secret', 'admin', featureOff],
  ['GET', '/admin/custom-providers', 'admin', () => json({ providers: [] })],
  ['POST', '/admin/custom-providers', 'admin', featureOff],
  [['GET', 'PUT', 'DELETE'], '/admin/custom-providers/:id', 'admin', featureOff],
];

/** Returns the plugin. Tests pass a cheap `hasher`. */
export function auth(context: FeatureContext, hasher?: PasswordHasher): FastifyPluginAsync {
  return async (app) => {
    const state = makeContext(context, hasher);
    for (const [methods, url, ...access] of ROUTES) {
      app.route({
        method: [methods].flat(),
        url,
        // HEAD of a mailed link must have no effect, so Fastify must not derive HEAD routes from GET.
        exposeHeadRoute: false,
        handler: async (request, reply) => {
          const presented = await context.credentials.read(request.headers, queryKey(request));
          return sendAnswer(
            reply,
            await answer(access, presented, () => readRequest(state, request, presented)),
          );
        },
      });
    }
    addErrorHandlers(app, state.log, ROUTES);
    runInBackground(app, context, state);
    await Promise.resolve();
  };
}

/** Checks the access before the body is read, then runs the action. */
async function answer(
  [access, action]: Access,
  presented: Presented,
  read: () => Promise<AuthRequest>,
): Promise<Answer> {
  if (access !== 'none') requireApiKey(presented);
  if (access === 'admin') requireAdmin(presented);
  const request = await read();
  if (access !== 'user' && access !== 'session') return await action(request);
  const signedIn = await (access === 'user' ? requireUser : requireSession)(request);
  return await action(Object.assign(request, { signedIn }));
}

/** Runs mail delivery and maintenance from the start of serving until the server closes. */
function runInBackground(app: FastifyInstance, { whenServing }: FeatureContext, state: AuthContext): void {
  let maintenance: Maintenance | undefined;
  const begin = (): void => {
    state.outbox.start();
    maintenance = startMaintenance(state);
  };
  app.addHook('onReady', async () => {
    if (whenServing) whenServing(begin);
    else begin();
    await Promise.resolve();
  });
  app.addHook('onClose', async () => {
    await Promise.all([state.outbox.close(), maintenance?.close()]);
  });
}
