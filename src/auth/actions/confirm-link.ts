// POST /user/identities/confirm: the button of the page that asks before an identity joins an account.
import type { AuthContext } from '../auth-context.ts';
import { Problem } from '../../problem/problem.ts';
import { openProviderTokens, takeParked } from '../sessions/flow-state.ts';
import { flowStateNotFound, toRedirectError } from '../problem.ts';
import { BUCKETS } from '../rate-limit.ts';
import { chooseTarget, withFragment } from '../http/redirect.ts';
import { json, redirectTo, type Answer, type AuthRequest } from '../http/request.ts';
import { isAskedBrowser } from '../http/state-cookie.ts';
import { againOnRace, implicitAnswer, openLinked } from './callback.ts';

export async function confirmLink(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  await auth.limiter.byAddress(BUCKETS.verify, request);
  const code = request.body.filled('code');
  const { outcome, referrer } = await take(auth, request, code ?? '');
  const target = chooseTarget(referrer, request.settings, request.authUrl);
  if (!(outcome instanceof Problem)) return outcome(target);
  if (target === undefined) throw outcome;
  return redirectTo(303, withFragment(target, toRedirectError(outcome)));
}

type Taken = {
  readonly outcome: Problem | ((target: string | undefined) => Answer);
  readonly referrer: string | undefined;
};

async function take(auth: AuthContext, request: AuthRequest, code: string): Promise<Taken> {
  // Only the browser that was asked may answer: a page elsewhere cannot post somebody else's question to it.
  if (!isAskedBrowser(request, code)) return { outcome: flowStateNotFound(), referrer: undefined };
  const taken = await againOnRace(() =>
    auth.db.transaction(async (db): Promise<Taken> => {
      const flow = await takeParked(db, code, request.now);
      if (!flow) return { outcome: flowStateNotFound(), referrer: undefined };
      const referrer = flow.referrer ?? undefined;
      const tokens = await openLinked(auth, db, request, flow);
      if (tokens instanceof Problem) return { outcome: tokens, referrer };
      const provider = openProviderTokens(auth, flow);
      return {
        referrer,
        outcome: (target) => {
          const { body, fragment } = implicitAnswer(tokens, provider);
          return target === undefined ? json(body) : redirectTo(303, withFragment(target, fragment));
        },
      };
    }),
  );
  auth.outbox.wake();
  return taken;
}
