// What is in an access token, after verification.
import { DATABASE_ROLES, type DatabaseRole } from '../postgres/pool/caller-pool.ts';

export type Claims = {
  /** The role the statement will run under; one of ours, never taken over unseen. */
  readonly role: DatabaseRole;
  /** User id; null in a token that is no user's. */
  readonly sub: string | null;
  readonly sessionId: string | null;
  readonly email: string | null;
  readonly isAnonymous: boolean;
  readonly aal: string | null;
  /** Unix seconds. */
  readonly expiresAt: number | null;
  readonly notBefore: number | null;
  readonly issuedAt: number | null;
  /** The whole payload with `role` in it, as `request.jwt.claims` shows it to SQL. */
  readonly json: string;
  readonly payload: Readonly<Record<string, unknown>>;
};

export function isDatabaseRole(value: unknown): value is DatabaseRole {
  return DATABASE_ROLES.some((role) => role === value);
}
