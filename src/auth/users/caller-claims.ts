// Builds the token claims of a user who has not signed in, for tools that call the APIs as that user.
import type { Queryable } from '../../postgres/owner-database.ts';
import { accessClaims } from '../sessions/session.ts';
import { findUserById } from './user.ts';

export type ClaimsOptions = {
  readonly now: Date;
  readonly lifetimeSeconds: number;
  /** Base URL of the APIs. */
  readonly baseUrl: string;
};

/** Returns the claims of a password sign-in without a session, or undefined if the user does not exist. */
export async function userClaims(
  db: Queryable,
  id: string,
  { now, lifetimeSeconds, baseUrl }: ClaimsOptions,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  const issuedAt = Math.floor(now.getTime() / 1000);
  const user = await findUserById(db, id);
  if (!user || user.deleted_at) return undefined;
  return accessClaims({
    user,
    aal: 'aal1',
    amr: [{ method: 'password', timestamp: issuedAt }],
    sessionId: undefined,
    issuer: `${baseUrl}/auth/v1`,
    issuedAt,
    lifetimeSeconds,
  });
}
