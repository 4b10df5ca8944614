// Claims of a verified access token.
import { DATABASE_ROLES, type DatabaseRole } from '../postgres/pool/caller-pool.ts';

export type Claims = {
  /** Role of the statement. Validated to be one of the API roles. */
  readonly role: DatabaseRole;
  /** Id of the user. Null in a token without a user. */
  readonly sub: string | null;
  readonly sessionId: string | null;
  readonly email: string | null;
  readonly isAnonymous: boolean;
  readonly aal: string | null;
  /** Unix seconds. */
  readonly expiresAt: number | null;
  readonly notBefore: number | null;
  readonly issuedAt: number | null;
  /** The whole payload including `role`, as SQL reads it from `request.jwt.claims`. */
  readonly json: string;
  readonly payload: Readonly<Record<string, unknown>>;
};

export function isDatabaseRole(value: unknown): value is DatabaseRole {
  return DATABASE_ROLES.some((role) => role === value);
}
