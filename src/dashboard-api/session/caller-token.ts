// The token of whoever the dashboard acts as. The secret key itself is never lent: a code function would see it
// among its headers.
import { accessClaims } from '../../auth/sessions/session.ts';
import { findUserById } from '../../auth/users/user.ts';
import { signToken } from '../../identity/token.ts';
import type { DashboardContext } from '../dashboard-context.ts';
import { notFound } from '../problem.ts';

const LIFETIME_SECONDS = 300;

export type CallerId = { readonly kind: 'service' | 'anon' } | { readonly kind: 'user'; readonly id: string };

/** Undefined for `anon`, who has a key only. */
export async function callerToken(
  context: DashboardContext,
  caller: CallerId,
  issuer: string,
): Promise<string | undefined> {
  const claims = await callerClaims(context, caller, issuer);
  return claims === undefined ? undefined : await signToken(claims, context.signingKeys.signing);
}

/** What the APIs learn about a caller; those of a user are the ones of a sign-in without a session. */
export async function callerClaims(
  context: DashboardContext,
  caller: CallerId,
  issuer: string,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  const now = context.now();
  const issuedAt = Math.floor(now.getTime() / 1000);
  switch (caller.kind) {
    case 'anon':
      return undefined;
    case 'service':
      return { role: 'service_role', iss: 'svc-dashboard', iat: issuedAt, exp: issuedAt + LIFETIME_SECONDS };
    case 'user': {
      const user = await findUserById(context.owner, caller.id);
      if (!user || user.deleted_at) throw notFound('There is no such user');
      return accessClaims({
        user,
        aal: 'aal1',
        amr: [{ method: 'password', timestamp: issuedAt }],
        sessionId: undefined,
        issuer,
        issuedAt,
        lifetimeSeconds: LIFETIME_SECONDS,
      });
    }
  }
}
