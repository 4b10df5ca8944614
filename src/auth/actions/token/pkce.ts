// grant_type=pkce: the code of a redirect, and the verifier only the client that began the flow has.
import type { Queryable } from '../../../postgres/owner-database.ts';
import { Problem } from '../../../problem/problem.ts';
import type { AuthContext } from '../../auth-context.ts';
import { openProviderTokens, redeemCode } from '../../sessions/flow-state.ts';
import { flowStateNotFound, userBanned, validationFailed } from '../../problem.ts';
import { BUCKETS } from '../../rate-limit.ts';
import { json, type Answer, type AuthRequest } from '../../http/request.ts';
import { openSession } from '../../sessions/session.ts';
import { findUserById, isBanned } from '../../users/user.ts';
import { againOnRace, openLinked } from '../callback.ts';

export async function tokenByPkce(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  const { body, now } = request;
  await auth.limiter.byAddress(BUCKETS.token, request);
  const code = body.filled('auth_code');
  const verifier = body.filled('code_verifier');
  if (code === undefined || verifier === undefined) {
    throw validationFailed('invalid request: both auth code and code verifier should be non-empty');
  }
  const redeem = async (db: Queryable): Promise<Answer | Error> => {
    const exchange = await redeemCode(db, code, verifier, now);
    // Returned, not thrown: the count of wrong verifiers must be committed.
    if (exchange.kind === 'refused') return exchange.problem;
    const { flow } = exchange;
    const user = await findUserById(db, flow.user_id);
    if (!user || user.deleted_at) return flowStateNotFound();
    if (isBanned(user, now)) return userBanned(403);
    // The verifier shows that whoever comes for the code began the flow: only now does the identity join the account.
    const tokens =
      flow.linking_target_id === null
        ? await openSession(auth, db, { user, method: flow.authentication_method, device: request, now })
        : await openLinked(auth, db, request, flow);
    if (!tokens) return userBanned(403);
    if (tokens instanceof Problem) return tokens;
    const { accessToken, refreshToken } = openProviderTokens(auth, flow);
    return json({
      ...tokens,
      ...(accessToken === undefined ? {} : { provider_token: accessToken }),
      ...(refreshToken === undefined ? {} : { provider_refresh_token: refreshToken }),
    });
  };
  const outcome = await againOnRace(() => auth.db.transaction(redeem));
  auth.outbox.wake();
  if (outcome instanceof Error) throw outcome;
  return outcome;
}
