// Credentials of the caller that the dashboard acts as (`service`, `anon` or `user:<uuid>`): a token and transaction
// settings. Never uses the secret key, because a code function would see it in its headers.
import { isUuid } from '../../auth/fields.ts';
import { userClaims } from '../../auth/users/caller-claims.ts';
import { ANON } from '../../identity/caller.ts';
import { isDatabaseRole } from '../../identity/claims.ts';
import { signToken } from '../../identity/token.ts';
import type { CallerSettings } from '../../postgres/pool/caller-pool.ts';
import type { CallerName } from '../contract.ts';
import type { DashboardContext } from '../dashboard-context.ts';
import { notFound } from '../problem.ts';

const LIFETIME_SECONDS = 300;
const USER = 'user:';

export function isCallerName(text: string): text is CallerName {
  return text === 'service' || text === 'anon' || (text.startsWith(USER) && isUuid(text.slice(USER.length)));
}

/** Returns undefined for `anon`, which has only an API key. `baseUrl`: base URL of the APIs. */
export async function callerToken(
  context: DashboardContext,
  name: CallerName,
  baseUrl: string,
): Promise<string | undefined> {
  const claims = await callerClaims(context, name, baseUrl);
  return claims && (await signToken(claims, context.signingKeys.signing));
}

/** Returns the transaction settings that the data API would use for this caller. */
export async function callerSettings(
  context: DashboardContext,
  name: CallerName,
  baseUrl: string,
): Promise<CallerSettings> {
  const claims = await callerClaims(context, name, baseUrl);
  const role = claims?.['role'];
  return isDatabaseRole(role) ? { role, claims: JSON.stringify(claims) } : ANON;
}

/** A user gets the claims of a sign-in, without a session. */
async function callerClaims(
  { owner, now }: DashboardContext,
  name: CallerName,
  baseUrl: string,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  if (name === 'anon') return undefined;
  if (name === 'service') {
    const issuedAt = Math.floor(now().getTime() / 1000);
    return { role: 'service_role', iss: 'svc-dashboard', iat: issuedAt, exp: issuedAt + LIFETIME_SECONDS };
  }
  const options = { now: now(), lifetimeSeconds: LIFETIME_SECONDS, baseUrl };
  const claims = await userClaims(owner, name.slice(USER.length), options);
  if (!claims) throw notFound('There is no such user');
  return claims;
}
