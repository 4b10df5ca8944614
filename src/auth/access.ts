// Decides who can use a route: callers with an API key, signed-in users, administrators.
import type { Presented } from '../identity/credentials.ts';
import { withoutApiKey } from '../identity/caller.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';
import { isUuid } from './fields.ts';
import type { AuthRequest } from './http/request.ts';
import { AuthProblem, problems } from './problem.ts';
import { loadSessionAndUser, type SessionRow } from './sessions/session.ts';
import { hasVerifiedFactor, isBanned, lockUser, type UserRow } from './users/user.ts';

export type SignedIn = { readonly user: UserRow; readonly session: SessionRow };

export type UserRequest = AuthRequest & { readonly signedIn: SignedIn };

/** Throws unless a header contains an API key. Also throws when one of two keys is wrong. */
export function requireApiKey(presented: Presented): void {
  const refused = withoutApiKey(presented.apikey, presented.bearer);
  if (refused) throw refused.refusal.reason === 'no-key' ? problems.noApiKey() : problems.wrongApiKey();
  if (presented.bearer.kind === 'keylike') throw problems.wrongApiKey();
}

/**
 * Returns the user and the session of the bearer token. Both are read from the database, because claims may
 * be out of
 * date. Rejects a restricted session.
 */
export async function requireUser(request: AuthRequest): Promise<SignedIn> {
  const signedIn = await requireSession(request);
  if (signedIn.session.restricted) throw problems.sessionRestricted();
  return signedIn;
}

/** Does the same as `requireUser`, but accepts a restricted session. */
export async function requireSession({ auth, presented, now }: AuthRequest): Promise<SignedIn> {
  const { bearer } = presented;
  switch (bearer.kind) {
    case 'none':
      throw problems.noBearer();
    case 'publishable':
    case 'secret':
      throw problems.badJwt('missing sub claim');
    case 'keylike':
      throw problems.wrongApiKey();
    case 'bad-token':
    case 'other':
      throw problems.badJwt(bearer.fault.message);
    case 'token':
      break;
  }
  const { claims } = bearer;
  if (claims.sub === null) throw problems.badJwt('missing sub claim');
  if (!isUuid(claims.sub)) throw new AuthProblem('bad_jwt', 400, 'invalid JWT: sub must be a UUID');
  if (claims.payload['aud'] !== 'authenticated') {
    throw problems.validationFailed("Token audience doesn't match request audience");
  }
  if (claims.sessionId === null || !isUuid(claims.sessionId))
    throw problems.badJwt('invalid session_id claim');
  const found = await loadSessionAndUser(auth.db, { sessionId: claims.sessionId, userId: claims.sub });
  if (!found || found.user.deleted_at) throw problems.userNotFound(403);
  const { user, session } = found;
  if (!session) throw problems.sessionNotFound();
  if (session.not_after && session.not_after <= now) throw problems.sessionNotFound();
  if (isBanned(user, now)) throw problems.userBanned(403);
  return { user, session };
}

/** The ids that are needed to read user and session again. */
export type SignedInIds = { readonly userId: string; readonly sessionId: string };

export const signedInIds = ({ user, session }: SignedIn): SignedInIds => ({
  userId: user.id,
  sessionId: session.id,
});

export type LockedUser = {
  readonly user: UserRow;
  /** True if the user has a verified factor and this session has not presented it. */
  readonly lacksFactor: boolean;
};

/**
 * Reads user and session again in the transaction that changes the account, and locks the user. The session
 * may have
 * ended since the request was accepted: the password was changed, or the owner of the mailbox proved it. If
 * the user has
 * a verified factor, `lacksFactor` is true until the session has presented it before it changes
 * credentials.
 */
export async function lockSignedIn(db: Queryable, { userId, sessionId }: SignedInIds): Promise<LockedUser> {
  const user = await lockUser(db, userId);
  if (!user || user.deleted_at) throw problems.userNotFound(403);
  const [session] = await db.query<{ aal: SessionRow['aal'] }>(
    sql`select aal from auth.sessions where id = ${sessionId} and user_id = ${userId} for share`,
  );
  if (!session) throw problems.sessionNotFound();
  return { user, lacksFactor: hasVerifiedFactor(user) && session.aal === 'aal1' };
}

/** Throws unless either header contains the secret key, or the bearer is a service token. */
export function requireAdmin(presented: Presented): void {
  const { apikey, bearer } = presented;
  switch (bearer.kind) {
    case 'none':
      if (apikey.kind === 'secret') return;
      throw problems.noBearer();
    case 'secret':
      return;
    case 'token':
      if (bearer.claims.role === 'service_role' && bearer.claims.sub === null) return;
      throw problems.notAdmin();
    case 'publishable':
      throw problems.notAdmin();
    case 'keylike':
      throw problems.wrongApiKey();
    case 'bad-token':
    case 'other':
      throw problems.badJwt(bearer.fault.message);
  }
}
