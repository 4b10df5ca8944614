// GET and POST /callback/:provider: where a provider sends the browser back. What fails before the provider has
// vouched for anybody is only logged; what is decided after that has its own code in the redirect.
import { isDatabaseError } from '../../postgres/pg-error.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { must } from '../../lib/assert.ts';
import { Problem } from '../../problem/problem.ts';
import type { AuthContext } from '../auth-context.ts';
import { isJsonObject } from '../fields.ts';
import {
  issueCode,
  OAUTH_FLOW_MS,
  openProfile,
  spendState,
  type FlowRow,
  type ProviderTokens,
} from '../sessions/flow-state.ts';
import { resolveIdentity, whyNotLinked, type LinkOrder, type Linking } from '../accounts/identity-link.ts';
import { linkPage, type LinkQuestion } from '../http/link-page.ts';
import {
  badOAuthCallback,
  badOAuthState,
  flowStateAlreadyUsed,
  flowStateExpired,
  flowStateNotFound,
  toRedirectError,
  unexpectedFailure,
  userBanned,
} from '../problem.ts';
import type { CallbackParameters, FlowSecrets, Provider, ProviderSignIn } from '../provider/provider.ts';
import { chooseTarget, withFragment, withQuery } from '../http/redirect.ts';
import { json, redirectTo, type Answer, type AuthRequest } from '../http/request.ts';
import { openSession, type TokenResponse } from '../sessions/session.ts';
import { askedCookie, beganHere, isSameBrowser } from '../http/state-cookie.ts';
import { findUserById } from '../users/user.ts';

export async function callback(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  const parameters = readParameters(request);
  const { state } = parameters;
  if (state === undefined) {
    return fail(request, undefined, badOAuthCallback('OAuth callback with missing state'));
  }
  const taken = await spendState(auth.db, state, request.path['provider']);
  if (taken.kind === 'unknown') {
    return fail(request, undefined, badOAuthState('OAuth callback with invalid state'));
  }
  const { flow } = taken;
  if (taken.kind === 'used') return fail(request, flow, flowStateAlreadyUsed());
  if (request.now.getTime() - flow.created_at.getTime() > OAUTH_FLOW_MS)
    return fail(request, flow, flowStateExpired());
  if (flow.code_challenge === null && flow.linking_target_id === null && !isSameBrowser(request, state)) {
    return fail(request, flow, badOAuthState('OAuth callback from another browser than the one that began'));
  }
  if (parameters['error'] !== undefined) return passOn(request, flow, parameters);
  const provider = auth.providers.find(flow.provider_type);
  const signedIn = provider ? await askProvider(auth, provider, flow, parameters) : undefined;
  if (!provider || !signedIn)
    return fail(request, flow, unexpectedFailure('Unable to exchange external code'));
  const ended = await finish(auth, request, flow, provider, signedIn, state);
  auth.outbox.wake();
  if (ended instanceof Problem) return fail(request, flow, ended);
  return 'question' in ended ? linkPage(request, ended.question) : succeed(request, flow, ended, signedIn);
}

/** A form post is Apple's; everybody else uses the query. */
function readParameters(request: AuthRequest): CallbackParameters {
  const source = request.method === 'POST' ? request.body : request.query;
  const names = ['state', 'code', 'error', 'error_description', 'iss', 'user'] as const;
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = source.filled(name);
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

async function askProvider(
  auth: AuthContext,
  provider: Provider,
  flow: FlowRow,
  parameters: CallbackParameters,
): Promise<ProviderSignIn | undefined> {
  try {
    return await provider.signIn(parameters, openSecrets(auth, flow));
  } catch (error) {
    auth.log.warn({ err: error, provider: provider.name }, 'an OAuth exchange failed');
    return undefined;
  }
}

function openSecrets(auth: AuthContext, flow: FlowRow): FlowSecrets {
  const opened =
    flow.provider_secrets && auth.boxes.providerToken.open(flow.provider_secrets, `${flow.id} flow`);
  const secrets: unknown = opened ? JSON.parse(opened.toString('utf8')) : {};
  if (!isJsonObject(secrets)) return {};
  const { verifier, nonce } = secrets;
  return {
    verifier: typeof verifier === 'string' ? verifier : undefined,
    nonce: typeof nonce === 'string' ? nonce : undefined,
  };
}

type Ended =
  | { readonly tokens: TokenResponse }
  | { readonly code: string }
  | { readonly question: LinkQuestion };

async function finish(
  auth: AuthContext,
  request: AuthRequest,
  flow: FlowRow,
  provider: Provider,
  signedIn: ProviderSignIn,
  state: string,
): Promise<Ended | Problem> {
  const { now } = request;
  const mayLinkAtOnce = flow.code_challenge === null && beganHere(request, state);
  const work = (): Promise<Ended | Problem> =>
    auth.db.transaction(async (db) => {
      const order = {
        provider: provider.name,
        profile: signedIn.profile,
        emailOptional: flow.email_optional,
        inviteTokenHash: flow.invite_token ?? undefined,
      };
      const linking = linkingOf(flow);
      if (linking && !mayLinkAtOnce)
        return await parkLink(auth, db, flow, { ...order, linking }, signedIn, request);
      const outcome = await resolveIdentity(auth, db, request, { ...order, linking });
      if (outcome.kind === 'refused') return outcome.problem;
      if (flow.code_challenge !== null) {
        const code = await issueCode(auth, db, flow.id, outcome.userId, now, signedIn);
        return code === undefined ? flowStateNotFound(422) : { code };
      }
      const user = must(await findUserById(db, outcome.userId), 'the user a provider signed in');
      const tokens = await openSession(auth, db, { user, method: 'oauth', device: request, now });
      return tokens ? { tokens } : userBanned(403);
    });
  try {
    return await againOnRace(work);
  } catch (error) {
    auth.log.error({ err: error, provider: provider.name }, 'an OAuth sign-in failed');
    return unexpectedFailure('Error during sign-in with an external provider', error);
  }
}

/** A flow that began before this was kept has no session to look at, and is refused like one whose session ended. */
function linkingOf(flow: FlowRow): Linking | undefined {
  if (flow.linking_target_id === null) return undefined;
  return { userId: flow.linking_target_id, sessionId: flow.linking_session_id ?? NO_SESSION };
}

const NO_SESSION = '00000000-0000-0000-0000-000000000000';

/**
 * Whoever opens the provider's page need not be the one who asked for it: an attacker may have handed them the link.
 * With PKCE the identity joins the account when the code is exchanged, for which the beginner's verifier is needed;
 * without it, the person in this browser is asked and is shown whose account it is.
 */
async function parkLink(
  auth: AuthContext,
  db: Queryable,
  flow: FlowRow,
  order: LinkOrder & { readonly linking: Linking },
  signedIn: ProviderSignIn,
  request: AuthRequest,
): Promise<Ended | Problem> {
  const { linking, profile, provider } = order;
  const { now, authUrl } = request;
  const problem = await whyNotLinked(db, order, linking, now);
  if (problem) return problem;
  const code = await issueCode(auth, db, flow.id, linking.userId, now, signedIn, profile);
  if (code === undefined) return flowStateNotFound(422);
  if (flow.code_challenge !== null) return { code };
  const user = must(await findUserById(db, linking.userId), 'the user to link to');
  const identity = profile.emails.find((one) => one.primary) ?? profile.emails[0];
  return {
    question: {
      provider,
      identity: identity?.email ?? profile.subject,
      account: user.email ?? undefined,
      code,
      cookie: askedCookie(code, authUrl),
    },
  };
}

/** Links what a parked flow holds and opens a session. */
export async function openLinked(
  auth: AuthContext,
  db: Queryable,
  request: AuthRequest,
  flow: FlowRow,
): Promise<TokenResponse | Problem> {
  const profile = openProfile(auth, flow);
  const linking = linkingOf(flow);
  if (!profile || !linking) return flowStateNotFound();
  const { provider_type: provider, email_optional: emailOptional } = flow;
  const outcome = await resolveIdentity(auth, db, request, { provider, profile, emailOptional, linking });
  if (outcome.kind === 'refused') return outcome.problem;
  const user = must(await findUserById(db, outcome.userId), 'the user a provider signed in');
  return (
    (await openSession(auth, db, { user, method: 'oauth', device: request, now: request.now })) ??
    userBanned(403)
  );
}

const MAX_ATTEMPTS = 4;

/** First sign-ins of one identity at once: whoever comes second looks again and finds what the first made. */
export async function againOnRace<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      const isRace =
        isDatabaseError(error, 'unique_violation') ||
        (error instanceof Problem && error.code === 'email_exists');
      if (!isRace || attempt === MAX_ATTEMPTS) throw error;
    }
  }
}

function redirectStatus(request: AuthRequest): 302 | 303 {
  // A POST must become a GET: 302 would let a browser post the provider's form to the application.
  return request.method === 'POST' ? 303 : 302;
}

function targetOf(request: AuthRequest, flow: FlowRow | undefined): string | undefined {
  return chooseTarget(flow?.referrer ?? undefined, request.settings, request.authUrl);
}

function succeed(
  request: AuthRequest,
  flow: FlowRow,
  ended: Exclude<Ended, { readonly question: LinkQuestion }>,
  signedIn: ProviderSignIn,
): Answer {
  const target = targetOf(request, flow);
  if ('code' in ended) {
    return target === undefined
      ? json({ code: ended.code })
      : redirectTo(redirectStatus(request), withQuery(target, { code: ended.code }));
  }
  const { body, fragment } = implicitAnswer(ended.tokens, signedIn);
  if (target === undefined) return json(body);
  return redirectTo(redirectStatus(request), withFragment(target, fragment));
}

/** A session as the implicit flow hands it over. */
export function implicitAnswer(
  tokens: TokenResponse,
  from: ProviderTokens,
): { readonly body: object; readonly fragment: Readonly<Record<string, string | number>> } {
  const provider = {
    ...(from.accessToken === undefined ? {} : { provider_token: from.accessToken }),
    ...(from.refreshToken === undefined ? {} : { provider_refresh_token: from.refreshToken }),
  };
  const { access_token, expires_at, expires_in, refresh_token, token_type } = tokens;
  return {
    body: { ...tokens, ...provider },
    fragment: { access_token, expires_at, expires_in, ...provider, refresh_token, token_type },
  };
}

/** The provider said no, in its own words. */
function passOn(request: AuthRequest, flow: FlowRow, parameters: CallbackParameters): Answer {
  const { error, error_description } = parameters;
  const target = targetOf(request, flow);
  if (target === undefined) {
    return { status: 400, body: { error, error_description } };
  }
  return redirectTo(redirectStatus(request), withFragment(target, { error, error_description }));
}

function fail(request: AuthRequest, flow: FlowRow | undefined, problem: Problem): Answer {
  const target = targetOf(request, flow);
  if (target === undefined) throw problem;
  return redirectTo(redirectStatus(request), withFragment(target, toRedirectError(problem)));
}
