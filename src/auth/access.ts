// Who may pass: the API key of `/auth/v1`, the user routes and the admin routes (decision table K1 to K23).
import type { Presented } from '../identity/credentials.ts';
import { doorOf } from '../identity/caller.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';
import type { AuthContext } from './auth-context.ts';
import { isUuid } from './fields.ts';
import {
  AuthProblem,
  badJwt,
  noApiKey,
  noBearer,
  notAdmin,
  sessionNotFound,
  userBanned,
  userNotFound,
  validationFailed,
  wrongApiKey,
} from './problem.ts';
import { loadSessionAndUser, type SessionRow } from './sessions/session.ts';
import { hasVerifiedFactor, isBanned, lockUser, type UserRow } from './users/user.ts';

export type SignedIn = { readonly user: UserRow; readonly session: SessionRow };

/** Throws unless a key opens the door. A wrong key beside a right one is a wrong key. */
export function requireKey(presented: Presented): void {
  const door = doorOf(presented.apikey, presented.bearer);
  if (door !== 'open') throw door.refusal.reason === 'no-key' ? noApiKey() : wrongApiKey();
  if (presented.bearer.kind === 'keylike') throw wrongApiKey();
}

/** The user and the living session behind the bearer token; both are read, never taken from the claims. */
export async function requireUser(auth: AuthContext, presented: Presented, now: Date): Promise<SignedIn> {
  const { bearer } = presented;
  switch (bearer.kind) {
    case 'none':
      throw noBearer();
    case 'publishable':
    case 'secret':
      throw badJwt('missing sub claim');
    case 'keylike':
      throw wrongApiKey();
    case 'bad-token':
    case 'other':
      throw badJwt(bearer.fault.message);
    case 'token':
      break;
  }
  const { claims } = bearer;
  if (claims.sub === null) throw badJwt('missing sub claim');
  if (!isUuid(claims.sub)) throw new AuthProblem('bad_jwt', 400, 'invalid JWT: sub must be a UUID');
  if (claims.payload['aud'] !== 'authenticated') {
    throw validationFailed("Token audience doesn't match request audience");
  }
  if (claims.sessionId === null || !isUuid(claims.sessionId)) throw badJwt('invalid session_id claim');
  const found = await loadSessionAndUser(auth.db, { sessionId: claims.sessionId, userId: claims.sub });
  if (!found || found.user.deleted_at) throw userNotFound(403);
  const { user, session } = found;
  if (!session) throw sessionNotFound();
  if (session.not_after && session.not_after <= now) throw sessionNotFound();
  if (isBanned(user, now)) throw userBanned(403);
  return { user, session };
}

/**
 * The same user and session again, as they are in the transaction that changes the account: since the request was let
 * in, the session may have ended, because a password was changed or the owner of the mailbox arrived. The user stays
 * locked. With a verified factor, what changes how the account is entered asks for a session that has shown it.
 */
export async function lockSignedIn(
  db: Queryable,
  { userId, sessionId }: { readonly userId: string; readonly sessionId: string },
): Promise<SignedInAgain> {
  const locked = await lockUser(db, userId);
  if (!locked || locked.deleted_at) throw userNotFound(403);
  const [alive] = await db.query<{ aal: SessionRow['aal'] }>(
    sql`select aal from auth.sessions where id = ${sessionId} and user_id = ${userId} for share`,
  );
  if (!alive) throw sessionNotFound();
  return { user: locked, lacksFactor: hasVerifiedFactor(locked) && alive.aal === 'aal1' };
}

/** Which user and session to look at again. */
export const idsOf = ({
  user,
  session,
}: SignedIn): { readonly userId: string; readonly sessionId: string } => ({
  userId: user.id,
  sessionId: session.id,
});

export type SignedInAgain = {
  readonly user: UserRow;
  /** The user has a verified factor and this session has not shown it. */
  readonly lacksFactor: boolean;
};

/** The secret key in either header, or a service token. */
export function requireAdmin(presented: Presented): void {
  const { apikey, bearer } = presented;
  switch (bearer.kind) {
    case 'none':
      if (apikey.kind === 'secret') return;
      throw noBearer();
    case 'secret':
      return;
    case 'token':
      if (bearer.claims.role === 'service_role' && bearer.claims.sub === null) return;
      throw notAdmin();
    case 'publishable':
      throw notAdmin();
    case 'keylike':
      throw wrongApiKey();
    case 'bad-token':
    case 'other':
      throw badJwt(bearer.fault.message);
  }
}
