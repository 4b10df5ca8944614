// Changing the address of an account: pending until the mailbox, or both mailboxes, have answered; or at once
// where there is no mail to prove it by.
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import type { AuthContext } from '../auth-context.ts';
import { recordAudit } from '../audit.ts';
import type { Challenge } from '../sessions/flow-state.ts';
import { voidAllTokens } from '../sessions/one-time-token.ts';
import { emailExists } from '../problem.ts';
import type { AuthRequest } from '../http/request.ts';
import { queueTokenMail, startEmailFlow } from './token-mail.ts';
import { insertEmailIdentity, syncProviders, updateUser, type UserRow } from '../users/user.ts';

/** Taken by a user, or by an identity of another user whose address it is. */
export async function isEmailTaken(db: Queryable, email: string, exceptUserId: string): Promise<boolean> {
  const [taken] = await db.query(sql`
    select 1 from auth.users u where u.email = ${email} and not u.is_sso_user and u.id <> ${exceptUserId}
    union all
    select 1 from auth.identities i where i.email = ${email} and i.user_id <> ${exceptUserId} and i.provider = 'email'
    limit 1`);
  return taken !== undefined;
}

/** Mails the new address, and the current one too when there is one. `user` has the pending address already. */
export async function mailEmailChange(
  auth: AuthContext,
  db: Queryable,
  request: AuthRequest,
  user: UserRow,
  challenge: Challenge | undefined,
): Promise<void> {
  const pending = user.email_change ?? '';
  const flowStateId = challenge
    ? await startEmailFlow(db, request, { user, challenge }, 'email_change')
    : undefined;
  const common = {
    user,
    mail: 'email_change',
    link: 'email_change',
    challenge: undefined,
    flowStateId,
    // Only who is signed in to the account asks for this.
    expels: false,
  } as const;
  await queueTokenMail(auth, db, request, { ...common, token: 'email_change_token_new', to: pending });
  if (user.email) {
    await queueTokenMail(auth, db, request, {
      ...common,
      token: 'email_change_token_current',
      to: user.email,
    });
  }
}

/** Makes the address the user's. `proven` says whether a mailbox or an admin vouches for it. */
export async function applyEmail(
  db: Queryable,
  user: UserRow,
  change: { readonly email: string; readonly proven: boolean; readonly ip: string; readonly now: Date },
): Promise<void> {
  const { email, proven, ip, now } = change;
  if (await isEmailTaken(db, email, user.id)) throw emailExists();
  await updateUser(
    db,
    user.id,
    {
      email,
      email_change: '',
      email_change_confirm_status: 0,
      email_confirmed_at: user.email_confirmed_at ?? now,
      email_proven_at: proven ? now : null,
      is_anonymous: false,
      raw_user_meta_data: JSON.stringify({
        ...user.raw_user_meta_data,
        sub: user.id,
        email,
        email_verified: true,
        phone_verified: false,
      }),
    },
    now,
  );
  await insertEmailIdentity(db, { id: user.id, email }, {}, proven, now);
  await syncProviders(db, user.id);
  await voidAllTokens(db, user.id);
  await recordAudit(db, { action: 'user_modified', actor: user, ip, now, traits: { email_changed: true } });
}
