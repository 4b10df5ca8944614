// grant_type=pkce: exchanges the code of a redirect, with the verifier that only the client of the flow has.
import type { Queryable } from '../../../postgres/owner-database.ts';
import { Problem } from '../../../problem/problem.ts';
import { isProven } from '../../accounts/email-ownership.ts';
import { signInWithPendingLink, transactionWithRetry } from '../../accounts/provider-sign-in.ts';
import { shownProviderTokens } from '../../http/flow-end.ts';
import { json, type Answer, type AuthRequest } from '../../http/request.ts';
import { orThrow, problems } from '../../problem.ts';
import { BUCKETS } from '../../rate-limit.ts';
import { openProviderTokens, redeemCode, type FlowRow } from '../../sessions/flow-state.ts';
import { issueTokens, openSession, type OpenedSession } from '../../sessions/session.ts';
import { findUserById, isBanned } from '../../users/user.ts';

export async function tokenByPkce(request: AuthRequest): Promise<Answer> {
  const { auth, body, now } = request;
  await auth.limiter.byAddress(BUCKETS.token, request);
  const code = body.filled('auth_code');
  const verifier = body.filled('code_verifier');
  if (code === undefined || verifier === undefined) {
    throw problems.validationFailed('invalid request: both auth code and code verifier should be non-empty');
  }
  // Problems are returned, not thrown, so that the count of wrong verifiers is committed.
  const exchange = async (db: Queryable): Promise<Exchanged | Problem> => {
    const flow = await redeemCode(db, code, verifier, now);
    if (flow instanceof Problem) return flow;
    const user = await findUserById(db, flow.user_id);
    if (!user || user.deleted_at) return problems.flowStateNotFound();
    if (isBanned(user, now)) return problems.userBanned(403);
    // The verifier shows that this client began the flow, so the identity can now be linked.
    const opened =
      flow.linking_target_id === null
        ? await openSession(db, request, {
            user,
            method: flow.authentication_method,
            isRestricted: flow.opens_restricted && !isProven(user),
          })
        : await signInWithPendingLink(db, request, flow);
    if (!opened) return problems.userBanned(403);
    return opened instanceof Problem ? opened : { opened, flow };
  };
  const { opened, flow } = orThrow(await transactionWithRetry(auth, exchange));
  const tokens = await issueTokens(request, opened);
  return json({ ...tokens, ...shownProviderTokens(openProviderTokens(auth, flow)) });
}

type Exchanged = { readonly opened: OpenedSession; readonly flow: FlowRow };
