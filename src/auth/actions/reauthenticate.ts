// GET /reauthenticate: mails a code to the signed-in user, to be sent along with a sensitive change.
import type { SignedIn } from '../access.ts';
import { queueTokenMail } from '../accounts/token-mail.ts';
import { recordAudit } from '../audit.ts';
import type { AuthContext } from '../auth-context.ts';
import { EMPTY, type Answer, type AuthRequest } from '../http/request.ts';
import { problems } from '../problem.ts';
import { updateUser } from '../users/user.ts';

export async function reauthenticate(
  auth: AuthContext,
  request: AuthRequest,
  { user }: SignedIn,
): Promise<Answer> {
  const { now, settings } = request;
  const { email: to } = user;
  if (!to)
    throw problems.validationFailed('Reauthentication requires the user to have an email or a phone number');
  if (!user.email_confirmed_at) throw problems.emailNotConfirmed(422);
  if (!settings.mail) throw problems.noMailProvider();
  await auth.db.transaction(async (db) => {
    await auth.limiter.mailRequest(db, request, 'reauthentication', to);
    await updateUser(db, user.id, now, { reauthentication_sent_at: now });
    const token = { user, token: 'reauthentication_token', to, revokes: false } as const;
    await queueTokenMail(auth, db, request, { ...token, mail: 'reauthentication' });
    await recordAudit(db, request, 'user_reauthenticate_requested', user);
  });
  auth.outbox.wake();
  return EMPTY;
}
