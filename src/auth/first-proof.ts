// The first proof of a mailbox. Until then an account may have been made by anybody who knew the address; what
// that somebody left behind (password, identities, factors, sessions) must not survive the owner's arrival.
import { sql } from '../postgres/sql.ts';
import type { Db } from './auth-context.ts';
import { endSessions } from './session.ts';
import { syncProviders, updateUser, type UserRow } from './user.ts';

/** Whether a mailbox, an admin or a provider has ever vouched for the address. */
export function isProven(user: UserRow): boolean {
  if (user.email_proven_at) return true;
  // Only what the provider said counts; user_metadata is the user's own to write.
  return user.identities.some(
    (identity) => identity.email === user.email && identity.identity_data['email_verified'] === true,
  );
}

/** Takes away every way in that existed before the proof, except the address itself. */
export async function expelStrangers(db: Db, user: UserRow, now: Date): Promise<void> {
  await updateUser(db, user.id, { encrypted_password: null, password_set_at: null }, now);
  await db.query(sql`
    delete from auth.identities
    where user_id = ${user.id} and not (provider = 'email' and email is not distinct from ${user.email})`);
  await db.query(sql`delete from auth.mfa_factors where user_id = ${user.id}`);
  await endSessions(db, user.id, 'all');
  await syncProviders(db, user.id);
}

/** Notes that the mailbox answered: the address is confirmed and proven, its identities verified. */
export async function markProven(db: Db, user: UserRow, now: Date): Promise<void> {
  await updateUser(
    db,
    user.id,
    {
      email_confirmed_at: user.email_confirmed_at ?? now,
      email_proven_at: now,
      raw_user_meta_data: JSON.stringify({ ...user.raw_user_meta_data, email_verified: true }),
    },
    now,
  );
  await db.query(sql`
    update auth.identities set identity_data = identity_data || '{"email_verified": true}', updated_at = ${now}
    where user_id = ${user.id} and email is not distinct from ${user.email}`);
}
