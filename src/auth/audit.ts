// The audit log records each actor, action and target in the transaction of the change. It never contains a code, a
// token or a hash.
import type { Client } from '../http/client.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { raw, sql, type Sql } from '../postgres/sql.ts';

const LOG_TYPES = {
  login: 'account',
  logout: 'account',
  invite_accepted: 'account',
  user_banned: 'account',
  user_unbanned: 'account',
  login_failed: 'account',
  user_signedup: 'team',
  user_invited: 'team',
  user_deleted: 'team',
  user_modified: 'user',
  user_recovery_requested: 'user',
  user_reauthenticate_requested: 'user',
  user_confirmation_requested: 'user',
  user_repeated_signup: 'user',
  user_updated_password: 'user',
  credentials_revoked: 'user',
  guarded_proof: 'user',
  account_disowned: 'user',
  notice_dropped: 'user',
  email_normalised: 'user',
  identity_linked: 'user',
  identity_unlinked: 'user',
  token_revoked: 'token',
  token_refreshed: 'token',
  refresh_reuse_detected: 'token',
  factor_in_progress: 'factor',
  factor_unenrolled: 'factor',
  challenge_created: 'factor',
  verification_attempted: 'factor',
  factor_deleted: 'factor',
  factor_updated: 'factor',
} as const;

export type AuditAction = keyof typeof LOG_TYPES;

/** Client and time of a request. */
export type Origin = { readonly client: Client; readonly now: Date };

export type AuditActor = {
  readonly id: string;
  readonly email: string | null;
  readonly phone?: string | null;
  readonly raw_user_meta_data?: Readonly<Record<string, unknown>>;
};

export const ADMIN_ACTOR: AuditActor = { id: '00000000-0000-0000-0000-000000000000', email: 'service_role' };

/** A caller without an account. */
export const SYSTEM_ACTOR: AuditActor = { id: '00000000-0000-0000-0000-000000000000', email: null };

export type AuditTraits = Readonly<Record<string, unknown>>;

/** Returns the insert as a part of a larger statement. It inserts only if `where` is true. */
export function auditInsert(
  { client, now }: Origin,
  action: AuditAction,
  actor: AuditActor,
  traits?: AuditTraits,
  where: Sql = raw('true'),
): Sql {
  const name = actor.raw_user_meta_data?.['full_name'] ?? actor.raw_user_meta_data?.['name'];
  const payload = {
    actor_id: actor.id,
    actor_username: (actor.phone || actor.email) ?? '',
    ...(typeof name === 'string' ? { actor_name: name.slice(0, 200) } : {}),
    actor_via_sso: false,
    action,
    log_type: LOG_TYPES[action],
    ...(traits ? { traits } : {}),
  };
  return sql`
    insert into auth.audit_log_entries (payload, created_at, ip_address)
    select ${JSON.stringify(payload)}::json, ${now}::timestamptz, ${client.address} where ${where}`;
}

export async function recordAudit(
  db: Queryable,
  from: Origin,
  action: AuditAction,
  actor: AuditActor,
  traits?: AuditTraits,
): Promise<void> {
  await db.query(auditInsert(from, action, actor, traits));
}

/** Records what an administrator did to a user. */
export async function recordAdmin(
  db: Queryable,
  from: Origin,
  action: AuditAction,
  { id, email }: { readonly id: string; readonly email: string | null },
  more?: AuditTraits,
): Promise<void> {
  await recordAudit(db, from, action, ADMIN_ACTOR, { user_id: id, user_email: email ?? '', ...more });
}
