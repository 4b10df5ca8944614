// `service`, `anon` or `user:<uuid>` as text: the role and claims it comes to for the database.
import { isUuid } from '../../auth/fields.ts';
import { ANON } from '../../identity/caller.ts';
import { isDatabaseRole } from '../../identity/claims.ts';
import type { CallerSettings } from '../../postgres/pool/caller-pool.ts';
import { callerClaims, type CallerId } from './caller-token.ts';
import type { CallerName } from '../contract.ts';
import type { DashboardContext } from '../dashboard-context.ts';

const USER = 'user:';

export function isCallerName(text: string): text is CallerName {
  return text === 'service' || text === 'anon' || (text.startsWith(USER) && isUuid(text.slice(USER.length)));
}

/** What a transaction is told when the APIs are called under this name. */
export async function callerSettings(
  context: DashboardContext,
  name: CallerName,
  baseUrl: string,
): Promise<CallerSettings> {
  const id: CallerId =
    name === 'service' || name === 'anon' ? { kind: name } : { kind: 'user', id: name.slice(USER.length) };
  const claims = await callerClaims(context, id, `${baseUrl}/auth/v1`);
  const role = claims?.['role'];
  return isDatabaseRole(role) ? { role, claims: JSON.stringify(claims) } : ANON;
}
