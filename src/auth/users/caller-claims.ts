// What the token of a caller would say who has not signed in: for tools that look at the APIs as somebody.
import type { Queryable } from '../../postgres/owner-database.ts';
import { accessClaims } from '../sessions/session.ts';
import { findUserById } from './user.ts';

export type ClaimsOptions = {
  readonly now: Date;
  readonly lifetimeSeconds: number;
  /** Base URL of the APIs. */
  readonly baseUrl: string;
};

/** Those of a sign-in with a password, without a session. Undefined when there is no such user. */
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
