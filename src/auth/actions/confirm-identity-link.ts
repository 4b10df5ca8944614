// POST /user/identities/confirm: the button on the page that asks before an identity is linked.
import { Problem } from '../../problem/problem.ts';
import { signInWithPendingLink, transactionWithRetry } from '../accounts/provider-sign-in.ts';
import { endWithProblem, endWithTokens, flowEnd } from '../http/flow-end.ts';
import type { Answer, AuthRequest } from '../http/request.ts';
import { hasLinkCookie } from '../http/state-cookie.ts';
import { problems } from '../problem.ts';
import { BUCKETS } from '../rate-limit.ts';
import { isPkce, openProviderTokens, consumePendingLink } from '../sessions/flow-state.ts';

export async function confirmLink(request: AuthRequest): Promise<Answer> {
  const { auth } = request;
  await auth.limiter.byAddress(BUCKETS.verify, request);
  const code = request.body.filled('code') ?? '';
  // Only flows without PKCE ask on a page.
  const noFlow = (): Answer =>
    endWithProblem(flowEnd(request, undefined, 303), problems.flowStateNotFound(), false);
  // Only the browser that got the question may answer, so that another page cannot post the form.
  if (!hasLinkCookie(request, code)) return noFlow();
  const { flow, tokens } = await transactionWithRetry(auth, async (db) => {
    const taken = await consumePendingLink(db, code, request.now);
    return { flow: taken, tokens: taken && (await signInWithPendingLink(db, request, taken)) };
  });
  if (!flow || !tokens) return noFlow();
  const end = flowEnd(request, flow.referrer, 303);
  if (tokens instanceof Problem) return endWithProblem(end, tokens, isPkce(flow));
  return endWithTokens(end, tokens, openProviderTokens(auth, flow));
}
