// Who owns the mailbox of an account. Until a mailbox is proven, anybody who knew the address may have made the account,
// and what they left in it must not survive the owner's arrival. Every mailed secret says whether it belongs to the
// sign-up that made the account, or proves the mailbox only and `revokes` what was there before.
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import type { JsonObject } from '../fields.ts';
import { voidAllTokens } from '../sessions/one-time-token.ts';
import { endSessions } from '../sessions/session.ts';
import {
  addressClaims,
  insertEmailIdentity,
  syncProviders,
  updateUser,
  type UserRow,
} from '../users/user.ts';

/** Whether a mailbox, an admin or a provider has ever confirmed the address. */
export function isProven(user: UserRow): boolean {
  if (user.email_proven_at) return true;
  // What a provider said counts; user_metadata does not, because the user writes it.
  return user.identities.some(
    (identity) => identity.email === user.email && identity.identity_data['email_verified'] === true,
  );
}

/** Whether something besides the mailbox and a password signs in to this account. */
export function hasForeignCredentials(user: UserRow): boolean {
  return user.factors.length > 0 || user.identities.some((identity) => identity.provider !== 'email');
}

/** Whether anything besides the mailbox signs in to this account. */
export function hasCredentials(user: UserRow): boolean {
  return user.encrypted_password !== null || hasForeignCredentials(user);
}

/** The metadata of an unproven account without anything a caller wrote. */
export function signUpMetadata({ id, email }: Pick<UserRow, 'id' | 'email'>): JsonObject {
  return email === null ? {} : addressClaims(id, email, false);
}

/**
 * A second person claims an address nobody has proven: the first one's password goes, and the metadata with it. Sessions
 * stay: an anonymous user who waits for a mail must not lose theirs because somebody typed the address.
 */
export async function dropPassword(db: Queryable, user: UserRow, now: Date): Promise<void> {
  if (user.encrypted_password === null) return;
  await updateUser(db, user.id, now, { encrypted_password: null, password_set_at: null });
  await forgetMetadata(db, user, now);
}

/**
 * Removes every credential from before the proof, except the address itself: password, identities, factors, sessions,
 * pending secrets and changes, and flows that could still end in this account. `flow` is the one being finished.
 */
export async function revokeUnverifiedCredentials(
  db: Queryable,
  user: UserRow,
  now: Date,
  flow: string | null = null,
): Promise<void> {
  // Metadata stays when its writer left no credential: it came from an inviter or with a one-time password.
  if (hasCredentials(user)) await forgetMetadata(db, user, now);
  await updateUser(db, user.id, now, {
    encrypted_password: null,
    password_set_at: null,
    email_change: '',
    email_change_confirm_status: 0,
  });
  await db.query(sql`
    delete from auth.identities
    where user_id = ${user.id} and not (provider = 'email' and email is not distinct from ${user.email})`);
  await endAccess(db, user.id, flow);
  if (user.email !== null) await insertEmailIdentity(db, { id: user.id, email: user.email }, {}, false, now);
  await syncProviders(db, user.id);
}

/** Ends what could still sign in besides password and identities: factors, flows, sessions, mailed secrets. */
export async function endAccess(
  db: Queryable,
  userId: string,
  exceptFlow: string | null = null,
): Promise<void> {
  await db.query(sql`delete from auth.mfa_factors where user_id = ${userId}`);
  await db.query(sql`
    delete from auth.flow_state
    where (user_id = ${userId} or linking_target_id = ${userId}) and id is distinct from ${exceptFlow}`);
  await endSessions(db, userId, 'all');
  await voidAllTokens(db, userId);
}

async function forgetMetadata(db: Queryable, user: UserRow, now: Date): Promise<void> {
  const metadata = signUpMetadata(user);
  await updateUser(db, user.id, now, { raw_user_meta_data: metadata });
  await db.query(sql`
    update auth.identities set identity_data = ${JSON.stringify(metadata)}, updated_at = ${now}
    where user_id = ${user.id} and provider = 'email'`);
}

/** Records that the mailbox answered: the address is confirmed and proven, its identities verified. */
export async function markProven(db: Queryable, user: UserRow, now: Date): Promise<void> {
  await updateUser(db, user.id, now, {
    email_confirmed_at: user.email_confirmed_at ?? now,
    email_proven_at: now,
    is_anonymous: false,
    raw_user_meta_data: { ...user.raw_user_meta_data, email_verified: true },
  });
  await db.query(sql`
    update auth.identities set identity_data = identity_data || '{"email_verified": true}', updated_at = ${now}
    where user_id = ${user.id} and email is not distinct from ${user.email}`);
}
