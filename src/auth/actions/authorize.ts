// GET /authorize and /user/identities/authorize: begin a flow and send the browser to the provider.
import { randomBytes, randomUUID } from 'node:crypto';
import { hashSecret, insertFlow, parseChallenge, type NewFlow } from '../sessions/flow-state.ts';
import { signedInIds, type UserRequest } from '../access.ts';
import { factorNeededToLink } from '../accounts/identity-link.ts';
import { findByToken } from '../sessions/one-time-token.ts';
import { problems } from '../problem.ts';
import { chooseTarget } from '../http/redirect.ts';
import { json, redirectTo, type Answer, type AuthRequest } from '../http/request.ts';
import { stateCookie } from '../http/state-cookie.ts';
import { hasVerifiedFactor } from '../users/user.ts';

export async function authorize(request: AuthRequest): Promise<Answer> {
  const { url, state } = await begin(request, undefined);
  const answer = redirectTo(307, url);
  return { ...answer, headers: { ...answer.headers, 'set-cookie': stateCookie(state, request.authUrl) } };
}

/**
 * Begins a flow that adds an identity to the signed-in user. The client gets the URL and navigates itself.
 */
export async function authorizeLink(request: UserRequest): Promise<Answer> {
  const { user, session } = request.signedIn;
  if (hasVerifiedFactor(user) && session.aal === 'aal1') throw factorNeededToLink();
  const { url, state } = await begin(request, signedInIds(request.signedIn));
  const answer = request.query.filled('skip_http_redirect') === 'true' ? json({ url }) : redirectTo(302, url);
  // An application on another site that calls without cookies loses this cookie. The confirm page then asks
  // the user.
  return { ...answer, headers: { ...answer.headers, 'set-cookie': stateCookie(state, request.authUrl) } };
}

/** Parameters of this API and of the protocol. An application cannot pass them on. Compared in lower case. */
const RESERVED: ReadonlySet<string> = new Set([
  'client_id',
  'client_secret',
  'redirect_uri',
  'response_type',
  'response_mode',
  'state',
  'code_challenge',
  'code_challenge_method',
  'code_verifier',
  'request',
  'request_uri',
  'provider',
  'scopes',
  'scope',
  'redirect_to',
  'invite_token',
  'skip_http_redirect',
  'apikey',
]);

async function begin(
  request: AuthRequest,
  linking: NewFlow['linking'],
): Promise<{ readonly url: string; readonly state: string }> {
  const { auth, query, now, settings } = request;
  const name = query.filled('provider');
  if (name === undefined) throw problems.validationFailed('Unsupported provider: missing provider');
  const provider = auth.findProvider(name);
  if (!provider) throw problems.validationFailed('Unsupported provider: provider is not enabled');
  const challenge = parseChallenge(query);
  const inviteToken = query.filled('invite_token');
  if (inviteToken !== undefined && !(await findByToken(auth.db, inviteToken, ['confirmation_token'], now))) {
    throw problems.userNotFound(404);
  }
  const state = randomBytes(32).toString('base64url');
  const { url, secrets } = await provider
    .authorizationUrl({
      state,
      scopes: (query.filled('scopes') ?? '').split(/[\s,]+/).filter((scope) => scope !== ''),
      passthrough: request.queryEntries.filter(([key]) => !RESERVED.has(key.toLowerCase())),
    })
    .catch((error: unknown) => {
      auth.log.error({ err: error, provider: name }, 'a provider cannot be reached or is misconfigured');
      throw problems.unexpectedFailure('The sign-in provider cannot be reached', error);
    });
  const id = randomUUID();
  await insertFlow(auth.db, id, now, {
    providerType: provider.name,
    method: 'oauth',
    challenge,
    referrer: chooseTarget(query.filled('redirect_to'), settings, request.authUrl),
    state,
    providerSecrets: auth.boxes.providerToken.seal(Buffer.from(JSON.stringify(secrets)), `${id} flow`),
    inviteToken: inviteToken === undefined ? undefined : hashSecret(inviteToken),
    linking,
    emailOptional: provider.emailOptional,
  });
  return { url, state };
}
