// Ends a flow that began in a browser: with a redirect to the application, or with JSON if there is no target. Tokens
// and errors go into the fragment, which no server receives. Codes go into the query.
import type { Problem } from '../../problem/problem.ts';
import { toRedirectError } from '../problem.ts';
import type { ProviderTokens } from '../provider/provider.ts';
import type { TokenResponse } from '../sessions/session.ts';
import { chooseTarget, withFragment, withQuery, type Parameters } from './redirect.ts';
import { json, redirectTo, type Answer, type AuthRequest } from './request.ts';

export type FlowEnd = { readonly target: string | undefined; readonly status: 302 | 303 };

/**
 * Checks the requested target again, because the list of allowed targets may have changed since the flow
 * began.
 */
export function flowEnd(
  request: AuthRequest,
  requested: string | null | undefined,
  status: 302 | 303,
): FlowEnd {
  return { target: chooseTarget(requested ?? undefined, request.settings, request.authUrl), status };
}

export function endWithCode({ target, status }: FlowEnd, code: string): Answer {
  return target === undefined ? json({ code }) : redirectTo(status, withQuery(target, { code }));
}

/** Sends the tokens of a session. `more` is added only to the fragment. */
export function endWithTokens(
  { target, status }: FlowEnd,
  tokens: TokenResponse,
  provider: Partial<ProviderTokens> = {},
  more: Parameters = {},
): Answer {
  const providerTokens = shownProviderTokens(provider);
  if (target === undefined) return json({ ...tokens, ...providerTokens });
  const { access_token, expires_at, expires_in, refresh_token, token_type } = tokens;
  const session = { access_token, expires_at, expires_in, ...providerTokens, refresh_token, token_type };
  return redirectTo(status, withFragment(target, { ...session, ...more }));
}

export function shownProviderTokens({ accessToken, refreshToken }: Partial<ProviderTokens>): Parameters {
  return { provider_token: accessToken, provider_refresh_token: refreshToken };
}

/**
 * Redirects with the problem. Without a target it throws the problem, which is then answered as on any
 * other route.
 */
export function endWithProblem(end: FlowEnd, problem: Problem, isPkce: boolean): Answer {
  if (end.target === undefined) throw problem;
  return redirectTo(end.status, withMessage(end.target, toRedirectError(problem), isPkce));
}

/**
 * Adds a message to the target. Clients of the PKCE flow read the query, often on a server, which never gets
 * the fragment.
 * All other clients read the fragment.
 */
export function withMessage(target: string, message: Parameters, isPkce: boolean): string {
  return withFragment(isPkce ? withQuery(target, message) : target, message);
}
