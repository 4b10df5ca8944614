// DELETE /user/identities/:id: removes a sign-in method from an account, but never the last one.
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import type { AuthContext } from '../auth-context.ts';
import { recordAudit } from '../audit.ts';
import { isEmailTaken } from '../accounts/email-change.ts';
import { parsePathUuid } from '../fields.ts';
import { queueNotice } from '../mail/notice.ts';
import { signedInIds, lockSignedIn, type UserRequest } from '../access.ts';
import { voidAllTokens } from '../sessions/one-time-token.ts';
import { problems } from '../problem.ts';
import { EMPTY, type Answer } from '../http/request.ts';
import { syncProviders, updateUser, type IdentityRow, type UserRow } from '../users/user.ts';

export async function unlinkIdentity(request: UserRequest): Promise<Answer> {
  const { auth, now, signedIn } = request;
  const id = parsePathUuid(request.path['id'], 'identity_id');
  await auth.db.transaction(async (db) => {
    const { user, lacksFactor } = await lockSignedIn(db, signedInIds(signedIn));
    if (lacksFactor)
      throw problems.insufficientAal(
        403,
        'AAL2 session is required to remove an identity when MFA is enabled.',
      );
    if (user.identities.length <= 1) throw problems.singleIdentity();
    const identity = user.identities.find((candidate) => candidate.id === id);
    if (!identity) throw problems.identityNotFound();
    const rest = user.identities.filter((candidate) => candidate.id !== id);
    checkCanSignIn(auth, user, rest);
    await db.query(sql`delete from auth.identities where id = ${id}`);
    await moveToRemainingEmail(db, user, rest, now);
    await syncProviders(db, user.id);
    const traits = { provider: identity.provider, identity_id: id };
    await recordAudit(db, request, 'identity_unlinked', user, traits);
    const values = { Provider: identity.provider };
    await queueNotice(db, request, { kind: 'identity_unlinked', user, values });
  });
  auth.outbox.wake();
  return EMPTY;
}

/**
 * Throws unless one remaining identity can sign in: a configured provider, or an address with a password
 * or mail.
 */
function checkCanSignIn(auth: AuthContext, user: UserRow, rest: readonly IdentityRow[]): void {
  const opens = rest.some((identity) =>
    identity.provider === 'email'
      ? user.encrypted_password !== null || auth.settings().mail !== undefined
      : auth.findProvider(identity.provider) !== undefined,
  );
  if (!opens) throw problems.singleIdentity('The remaining identities could not sign in to this account');
}

/**
 * If the account's address belongs to the removed identity, replaces it with the address of a remaining
 * identity.
 */
async function moveToRemainingEmail(
  db: Queryable,
  user: UserRow,
  rest: readonly IdentityRow[],
  now: Date,
): Promise<void> {
  if (user.email === null || rest.some((identity) => identity.email === user.email)) return;
  const isVerified = (identity: IdentityRow): boolean => identity.identity_data['email_verified'] === true;
  const best = rest
    .filter((identity) => identity.email !== null)
    .toSorted(
      (a, b) => Number(isVerified(b)) - Number(isVerified(a)) || a.created_at.localeCompare(b.created_at),
    )[0];
  if (!best?.email) return;
  if (await isEmailTaken(db, best.email, user.id)) throw problems.emailConflictOnUnlink();
  await updateUser(db, user.id, now, {
    email: best.email,
    email_confirmed_at: isVerified(best) ? (user.email_confirmed_at ?? now) : null,
    email_proven_at: isVerified(best) ? now : null,
    email_change: '',
    email_change_confirm_status: 0,
  });
  await voidAllTokens(db, user.id);
}
