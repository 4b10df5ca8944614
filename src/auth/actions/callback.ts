// GET and POST /callback/:provider: the URL to which a provider sends the browser back. Failures before the provider
// has identified a user are logged and shown as one error. Later refusals have their own code in the redirect.
import type { Queryable } from '../../postgres/owner-database.ts';
import { Problem } from '../../problem/problem.ts';
import { findLinkTarget, resolveIdentity, type LinkOrder } from '../accounts/identity-link.ts';
import { linkingUser, transactionWithRetry } from '../accounts/provider-sign-in.ts';
import type { SignedInIds } from '../access.ts';
import type { AuthContext } from '../auth-context.ts';
import { isJsonObject } from '../fields.ts';
import { endWithCode, endWithProblem, endWithTokens, flowEnd, withMessage } from '../http/flow-end.ts';
import { linkPage, type LinkQuestion } from '../http/identity-link-page.ts';
import { redirectTo, type Answer, type AuthRequest } from '../http/request.ts';
import { hasStateCookie, isSameBrowser, linkCookie } from '../http/state-cookie.ts';
import { asProblem, problems } from '../problem.ts';
import type { CallbackParameters, FlowSecrets, Provider, ProviderSignIn } from '../provider/provider.ts';
import { isPkce, issueCode, OAUTH_FLOW_MS, spendState, type FlowRow } from '../sessions/flow-state.ts';
import { issueTokens, signIn, type OpenedSession, type TokenResponse } from '../sessions/session.ts';

export async function callback(request: AuthRequest): Promise<Answer> {
  const { auth } = request;
  const parameters = readParameters(request);
  const { state, error, error_description } = parameters;
  // A POST must become a GET. After a 302 the browser could post the provider's form to the application.
  const status = request.method === 'POST' ? 303 : 302;
  // Without a flow the kind of client is unknown, so the error is put where both kinds of client look.
  const fail = (problem: Problem, flow?: FlowRow): Answer =>
    endWithProblem(flowEnd(request, flow?.referrer, status), problem, flow === undefined || isPkce(flow));

  if (state === undefined) return fail(problems.badOAuthCallback('OAuth callback with missing state'));
  const spent = await spendState(auth.db, state, request.path['provider']);
  if (spent.kind === 'unknown') return fail(problems.badOAuthState('OAuth callback with invalid state'));
  const { flow } = spent;
  if (spent.kind === 'used') return fail(problems.flowStateAlreadyUsed(), flow);
  if (request.now.getTime() - flow.created_at.getTime() > OAUTH_FLOW_MS)
    return fail(problems.flowStateExpired(), flow);
  if (!isPkce(flow) && flow.linking_target_id === null && !isSameBrowser(request, state)) {
    const message = 'OAuth callback from another browser than the one that began';
    return fail(problems.badOAuthState(message), flow);
  }

  const end = flowEnd(request, flow.referrer, status);
  if (error !== undefined) {
    // Passes on the provider's refusal unchanged.
    const refusal = { error, error_description };
    if (end.target === undefined) return { status: 400, body: refusal };
    return redirectTo(status, withMessage(end.target, refusal, isPkce(flow)));
  }
  const provider = auth.findProvider(flow.provider_type);
  const signedIn = provider && (await exchangeCode(auth, provider, flow, parameters));
  if (!signedIn) return fail(problems.unexpectedFailure('Unable to exchange external code'), flow);
  const ended = await finish(request, flow, provider, signedIn, state);
  if (ended instanceof Problem) return fail(ended, flow);
  if ('question' in ended) return linkPage(request, ended.question);
  if ('code' in ended) return endWithCode(end, ended.code);
  return endWithTokens(end, ended.tokens, signedIn);
}

/** Reads the parameters. Apple posts a form; all other providers use the query. */
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

async function exchangeCode(
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
/** The end of the transaction, before tokens are made. */
type Linked = Exclude<Ended, { readonly tokens: TokenResponse }> | { readonly opened: OpenedSession };

async function finish(
  request: AuthRequest,
  flow: FlowRow,
  provider: Provider,
  signedIn: ProviderSignIn,
  state: string,
): Promise<Ended | Problem> {
  const { auth } = request;
  const linking = linkingUser(flow);
  const order = {
    provider: provider.name,
    profile: signedIn.profile,
    emailOptional: flow.email_optional,
    inviteTokenHash: flow.invite_token ?? undefined,
    linking,
  };
  const canLinkImmediately = !isPkce(flow) && hasStateCookie(request, state);
  let ended: Linked | Problem;
  try {
    ended = await transactionWithRetry(auth, async (db): Promise<Linked | Problem> => {
      if (linking && !canLinkImmediately)
        return await holdLink(db, request, flow, { ...order, linking }, signedIn);
      const linked = await resolveIdentity(db, request, order);
      if (linked instanceof Problem) return linked;
      const { userId, isRestricted } = linked;
      if (isPkce(flow)) {
        const code = await issueCode(auth, db, {
          flowId: flow.id,
          userId,
          now: request.now,
          tokens: signedIn,
          isRestricted,
        });
        return code === undefined ? problems.flowStateNotFound(422) : { code };
      }
      const opened = await signIn(db, request, userId, { method: 'oauth', isRestricted });
      return opened instanceof Problem ? opened : { opened };
    });
  } catch (error) {
    const cause = error instanceof Problem ? (error.cause ?? error) : error;
    auth.log.error({ err: cause, provider: provider.name }, 'an OAuth sign-in failed');
    return error instanceof Problem
      ? error
      : problems.unexpectedFailure('Error during sign-in with an external provider', error);
  }
  if (ended instanceof Problem || !('opened' in ended)) return ended;
  return await issueTokens(request, ended.opened).then((tokens) => ({ tokens }), asProblem);
}

/**
 * Keeps the profile of a link until its owner agrees. The browser that returns from the provider may differ
 * from the one
 * that started the flow: an attacker may have sent the link to a victim. With PKCE the identity is linked
 * when the code
 * is exchanged, which needs the verifier. Without PKCE a page names the account and asks the user of this
 * browser.
 */
async function holdLink(
  db: Queryable,
  { auth, now, authUrl }: AuthRequest,
  flow: FlowRow,
  order: LinkOrder & { readonly linking: SignedInIds },
  signedIn: ProviderSignIn,
): Promise<Exclude<Linked, { readonly opened: OpenedSession }> | Problem> {
  const { linking, profile, provider } = order;
  const user = await findLinkTarget(db, order, linking, now);
  if (user instanceof Problem) return user;
  const code = await issueCode(auth, db, {
    flowId: flow.id,
    userId: linking.userId,
    now,
    tokens: signedIn,
    profile,
  });
  if (code === undefined) return problems.flowStateNotFound(422);
  if (isPkce(flow)) return { code };
  const email = profile.emails.find(({ primary }) => primary) ?? profile.emails[0];
  const identity = email?.email ?? profile.subject;
  const cookie = linkCookie(code, authUrl);
  return { question: { provider, identity, account: user.email ?? undefined, code, cookie } };
}
