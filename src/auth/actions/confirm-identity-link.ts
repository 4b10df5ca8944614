// POST /user/identities/confirm: the button on the page that asks before an identity is linked.
import { Problem } from '../../problem/problem.ts';
import { signInWithPendingLink, transactionWithRetry } from '../accounts/provider-sign-in.ts';
import { endWithProblem, endWithTokens, flowEnd } from '../http/flow-end.ts';
import type { Answer, AuthRequest } from '../http/request.ts';
import { hasLinkCookie } from '../http/state-cookie.ts';
import { asProblem, problems } from '../problem.ts';
import { BUCKETS } from '../rate-limit.ts';
import { isPkce, openProviderTokens, consumePendingLink } from '../sessions/flow-state.ts';
import { issueTokens } from '../sessions/session.ts';

export async function confirmLink(request: AuthRequest): Promise<Answer> {
  const { auth } = request;
  await auth.limiter.byAddress(BUCKETS.verify, request);
  const code = request.body.filled('code') ?? '';
  // Only flows without PKCE ask on a page.
  const noFlow = (): Answer =>
    endWithProblem(flowEnd(request, undefined, 303), problems.flowStateNotFound(), false);
  // Only the browser that got the question may answer, so that another page cannot post the form.
  if (!hasLinkCookie(request, code)) return noFlow();
  const { flow, opened } = await transactionWithRetry(auth, async (db) => {
    const taken = await consumePendingLink(db, code, request.now);
    return { flow: taken, opened: taken && (await signInWithPendingLink(db, request, taken)) };
  });
  if (!flow || !opened) return noFlow();
  const end = flowEnd(request, flow.referrer, 303);
  const tokens = opened instanceof Problem ? opened : await issueTokens(request, opened).catch(asProblem);
  if (tokens instanceof Problem) return endWithProblem(end, tokens, isPkce(flow));
  return endWithTokens(end, tokens, openProviderTokens(auth, flow));
}
