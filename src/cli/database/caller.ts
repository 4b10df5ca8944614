// Resolves the caller of a statement.
import { isUuid } from '../../auth/fields.ts';
import { userClaims } from '../../auth/users/caller-claims.ts';
import { findUserByTypedEmail } from '../../auth/users/user.ts';
import { ANON, SERVICE } from '../../identity/caller.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import type { CallerSettings } from '../../postgres/pool/caller-pool.ts';
import { EXIT, failure } from '../exit.ts';

/**
 * Returns the caller: `anon`, `service_role`, or a user by address or id, as after a sign-in with a
 * password.
 */
export async function callerNamed(name: string, owner: OwnerDatabase): Promise<CallerSettings> {
  switch (name) {
    case 'anon':
      return ANON;
    case 'service_role':
      return SERVICE;
  }
  const id = isUuid(name) ? name : (await findUserByTypedEmail(owner, name))?.id;
  const options = { now: new Date(), lifetimeSeconds: 300, baseUrl: 'http://localhost' };
  const claims = id === undefined ? undefined : await userClaims(owner, id, options);
  if (!claims)
    throw failure(
      EXIT.problem,
      `there is no user ${name}`,
      '--as takes owner, anon, service_role, or a user by address or id.',
    );
  return { role: 'authenticated', claims: JSON.stringify(claims) };
}
