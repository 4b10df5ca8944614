// The first proof of a mailbox. Until then an account may have been made by anybody who knew the address; what
// that somebody left behind must not survive the owner's arrival. Every mailed secret says whether it stands for
// the sign-up that made the account (`expels` is false) or only for the mailbox.
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import type { JsonObject } from '../fields.ts';
import { voidAllTokens } from '../sessions/one-time-token.ts';
import { endSessions } from '../sessions/session.ts';
import { insertEmailIdentity, syncProviders, updateUser, type UserRow } from '../users/user.ts';

/** Whether a mailbox, an admin or a provider has ever vouched for the address. */
export function isProven(user: UserRow): boolean {
  if (user.email_proven_at) return true;
  // Only what the provider said counts; user_metadata is the user's own to write.
  return user.identities.some(
    (identity) => identity.email === user.email && identity.identity_data['email_verified'] === true,
  );
}

/** Ways in beside the address itself and a password. */
export function hasForeignWaysIn(user: UserRow): boolean {
  return user.factors.length > 0 || user.identities.some((identity) => identity.provider !== 'email');
}

/** Whether anything but the mailbox opens this account. */
export function holdsWaysIn(user: UserRow): boolean {
  return user.encrypted_password !== null || hasForeignWaysIn(user);
}

/** What an account that nobody has proven says of its user when nobody's words are taken over. */
export function signUpMetadata({ id, email }: Pick<UserRow, 'id' | 'email'>): JsonObject {
  return email === null ? {} : { sub: id, email, email_verified: false, phone_verified: false };
}

/**
 * Two claim an address that nobody has proven: the password of the first goes, and what came with it. Only that: an
 * anonymous user who waits for a mail must not lose the session because somebody typed the address.
 */
export async function dropPassword(db: Queryable, user: UserRow, now: Date): Promise<void> {
  if (user.encrypted_password === null) return;
  await updateUser(db, user.id, { encrypted_password: null, password_set_at: null }, now);
  await forgetMetadata(db, user, now);
}

/**
 * Takes away every way in that existed before the proof, except the address itself: password, identities, factors,
 * sessions, pending secrets, pending changes, and flows that could still end in this account. `flow` is the one
 * that is being answered.
 */
export async function revokeUnverifiedCredentials(
  db: Queryable,
  user: UserRow,
  now: Date,
  flow: string | null = null,
): Promise<void> {
  // What somebody wrote who left no way in stays: it came with a one-time password or from an inviter.
  if (holdsWaysIn(user)) await forgetMetadata(db, user, now);
  await updateUser(
    db,
    user.id,
    { encrypted_password: null, password_set_at: null, email_change: '', email_change_confirm_status: 0 },
    now,
  );
  await db.query(sql`
    delete from auth.identities
    where user_id = ${user.id} and not (provider = 'email' and email is not distinct from ${user.email})`);
  await db.query(sql`delete from auth.mfa_factors where user_id = ${user.id}`);
  await db.query(sql`
    delete from auth.flow_state
    where (user_id = ${user.id} or linking_target_id = ${user.id}) and id is distinct from ${flow}`);
  await endSessions(db, user.id, 'all');
  await voidAllTokens(db, user.id);
  if (user.email !== null) await insertEmailIdentity(db, { id: user.id, email: user.email }, {}, false, now);
  await syncProviders(db, user.id);
}

async function forgetMetadata(db: Queryable, user: UserRow, now: Date): Promise<void> {
  const metadata = JSON.stringify(signUpMetadata(user));
  await updateUser(db, user.id, { raw_user_meta_data: metadata }, now);
  await db.query(sql`
    update auth.identities set identity_data = ${metadata}, updated_at = ${now}
    where user_id = ${user.id} and provider = 'email'`);
}

/** Notes that the mailbox answered: the address is confirmed and proven, its identities verified. */
export async function markProven(db: Queryable, user: UserRow, now: Date): Promise<void> {
  await updateUser(
    db,
    user.id,
    {
      email_confirmed_at: user.email_confirmed_at ?? now,
      email_proven_at: now,
      is_anonymous: false,
      raw_user_meta_data: JSON.stringify({ ...user.raw_user_meta_data, email_verified: true }),
    },
    now,
  );
  await db.query(sql`
    update auth.identities set identity_data = identity_data || '{"email_verified": true}', updated_at = ${now}
    where user_id = ${user.id} and email is not distinct from ${user.email}`);
}
