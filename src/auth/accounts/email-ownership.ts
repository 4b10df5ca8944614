// Determines whether the address of an account is proven. Before that, anybody who knew the address may have created
// the account; first-proof.ts decides what happens when the address is proven.
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import type { UserRow } from '../users/user.ts';

/** Returns whether a mailbox, an administrator or a provider has ever confirmed the address. */
export function isProven(user: UserRow): boolean {
  if (user.email_proven_at) return true;
  // Only the provider's claim counts: the user can write `user_metadata`.
  return user.identities.some(
    (identity) => identity.email === user.email && identity.identity_data['email_verified'] === true,
  );
}

/** Returns whether a provider identity can sign in to this account. */
export function hasForeignCredentials(user: UserRow): boolean {
  return user.identities.some((identity) => identity.provider !== 'email');
}

/** Returns whether the account has credentials other than the mailbox. */
export function hasCredentials(user: UserRow): boolean {
  return user.encrypted_password !== null || user.factors.length > 0 || hasForeignCredentials(user);
}

/** Records that the address is proven: the address counts as confirmed, and its identities as verified. */
export async function markProven(db: Queryable, user: UserRow, now: Date): Promise<void> {
  await db.query(sql`
    update auth.users set email_confirmed_at = coalesce(email_confirmed_at, ${now}), email_proven_at = ${now},
      is_anonymous = false, raw_user_meta_data = raw_user_meta_data || '{"email_verified": true}', updated_at = ${now}
    where id = ${user.id}`);
  await db.query(sql`
    update auth.identities set identity_data = identity_data || '{"email_verified": true}', updated_at = ${now}
    where user_id = ${user.id} and email is not distinct from ${user.email}`);
}
