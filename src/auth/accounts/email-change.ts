// Changes the email address of an account. The change stays pending until the new mailbox and the current one, if any,
// have confirmed it. Without a mail provider the change applies immediately.
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { recordAudit } from '../audit.ts';
import type { AuthRequest } from '../http/request.ts';
import { problems } from '../problem.ts';
import type { Challenge } from '../sessions/flow-state.ts';
import { endRestrictedSessions } from '../sessions/session.ts';
import { voidAllTokens, type TokenKind } from '../sessions/one-time-token.ts';
import {
  addressClaims,
  insertEmailIdentity,
  readUser,
  syncProviders,
  updateUser,
  type UserRow,
} from '../users/user.ts';
import { queueNotice } from '../mail/notice.ts';
import { queueTokenMail, startEmailFlow } from './token-mail.ts';

/** Returns whether another user has the address, or has an email identity with it. */
export async function isEmailTaken(db: Queryable, email: string, exceptUserId: string): Promise<boolean> {
  const [taken] = await db.query(sql`
    select 1 from auth.users u where u.email = ${email} and not u.is_sso_user and u.id <> ${exceptUserId}
    union all
    select 1 from auth.identities i where i.email = ${email} and i.user_id <> ${exceptUserId} and i.provider = 'email'
    limit 1`);
  return taken !== undefined;
}

/** Sends a mail to the pending address, and to the current one if there is one. */
export async function mailEmailChange(
  db: Queryable,
  request: AuthRequest,
  userId: string,
  challenge: Challenge | undefined,
): Promise<void> {
  const user = await readUser(db, userId);
  const flowStateId = challenge && (await startEmailFlow(db, request.now, user, challenge, 'email_change'));
  // Only a signed-in user can request this.
  const common = { user, mail: 'email_change', link: 'email_change', flowStateId, revokes: false } as const;
  const mail = (token: TokenKind, to: string): Promise<void> =>
    queueTokenMail(db, request, { ...common, token, to });
  await mail('email_change_token_new', user.email_change ?? '');
  if (user.email) await mail('email_change_token_current', user.email);
}

/** Stores the address for the user. `proven`: a mailbox or an administrator has confirmed it. */
export async function applyEmail(
  db: Queryable,
  from: AuthRequest,
  user: UserRow,
  email: string,
  proven: boolean,
): Promise<void> {
  const { now } = from;
  if (await isEmailTaken(db, email, user.id)) throw problems.emailExists();
  await updateUser(db, user.id, now, {
    email,
    email_change: '',
    email_change_confirm_status: 0,
    email_confirmed_at: user.email_confirmed_at ?? now,
    email_proven_at: proven ? now : null,
    is_anonymous: false,
    raw_user_meta_data: { ...user.raw_user_meta_data, ...addressClaims(user.id, email, true) },
  });
  await insertEmailIdentity(db, { id: user.id, email }, {}, proven, now);
  await syncProviders(db, user.id);
  await voidAllTokens(db, user.id);
  // These sessions come from a proof of the previous address.
  await endRestrictedSessions(db, user.id);
  await recordAudit(db, from, 'user_modified', user, { email_changed: true });
  if (user.email !== null) {
    const values = { Email: email, OldEmail: user.email };
    await queueNotice(db, from, { kind: 'email_changed', user, values });
  }
}
