// GET /reauthenticate: a code to the user's own address, to be sent along with a sensitive change.
import type { AuthContext } from '../auth-context.ts';
import { recordAudit } from '../audit.ts';
import type { SignedIn } from '../access.ts';
import { emailNotConfirmed, emailProviderDisabled, validationFailed } from '../problem.ts';
import { EMPTY, type Answer, type AuthRequest } from '../http/request.ts';
import { queueTokenMail } from '../accounts/token-mail.ts';
import { updateUser } from '../users/user.ts';

export async function reauthenticate(
  auth: AuthContext,
  request: AuthRequest,
  { user }: SignedIn,
): Promise<Answer> {
  const { now, settings } = request;
  const { email } = user;
  if (!email) throw validationFailed('Reauthentication requires the user to have an email or a phone number');
  if (!user.email_confirmed_at) throw emailNotConfirmed(422);
  if (!settings.mail) throw emailProviderDisabled(422);
  await auth.db.transaction(async (db) => {
    const asked = { kind: 'reauthentication', gapOf: email, to: email } as const;
    await auth.limiter.mailRequest(db, asked, request, settings.mailsPerHour);
    await updateUser(db, user.id, { reauthentication_sent_at: now }, now);
    await queueTokenMail(auth, db, request, {
      user,
      mail: 'reauthentication',
      link: undefined,
      token: 'reauthentication_token',
      to: email,
      challenge: undefined,
      expels: false,
    });
    await recordAudit(db, { action: 'user_reauthenticate_requested', actor: user, ip: request.ip, now });
  });
  auth.outbox.wake();
  return EMPTY;
}
