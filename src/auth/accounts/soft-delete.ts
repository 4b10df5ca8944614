// Soft deletion. Keeps the id, so that references in application rows stay valid. Hashes personal data and removes all
// credentials.
import { createHash } from 'node:crypto';
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { updateUser, type UserRow } from '../users/user.ts';
import { endOpenAccess } from './open-access.ts';

export async function softDelete(db: Queryable, user: UserRow, now: Date): Promise<void> {
  const obscured = (value: string | null): string | null =>
    value ? createHash('sha256').update(user.id).update(value).digest('base64url') : value;
  await updateUser(db, user.id, now, {
    email: obscured(user.email),
    phone: obscured(user.phone),
    email_change: obscured(user.email_change) ?? '',
    phone_change: obscured(user.phone_change) ?? '',
    encrypted_password: null,
    raw_app_meta_data: {},
    raw_user_meta_data: {},
    deleted_at: now,
  });
  for (const identity of user.identities) {
    await db.query(sql`
      update auth.identities set identity_data = '{}', provider_id = ${obscured(identity.provider_id)},
        updated_at = ${now}
      where id = ${identity.id}`);
  }
  await db.query(sql`delete from auth.mfa_factors where user_id = ${user.id}`);
  await endOpenAccess(db, user.id);
}
