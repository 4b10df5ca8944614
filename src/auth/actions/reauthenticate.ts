// GET /reauthenticate: mails a code to the signed-in user, which must accompany a sensitive change.
import type { UserRequest } from '../access.ts';
import { queueTokenMail } from '../accounts/token-mail.ts';
import { recordAudit } from '../audit.ts';
import { EMPTY, type Answer } from '../http/request.ts';
import { problems } from '../problem.ts';
import { updateUser } from '../users/user.ts';

export async function reauthenticate(request: UserRequest): Promise<Answer> {
  const { auth, now, settings } = request;
  const { user } = request.signedIn;
  const { email: to } = user;
  if (!to)
    throw problems.validationFailed('Reauthentication requires the user to have an email or a phone number');
  if (!user.email_confirmed_at) throw problems.emailNotConfirmed(422);
  if (!settings.mail) throw problems.noMailProvider();
  await auth.db.transaction(async (db) => {
    await auth.limiter.mailRequest(db, request, 'reauthentication', to);
    await updateUser(db, user.id, now, { reauthentication_sent_at: now });
    const mail = { mail: 'reauthentication', token: 'reauthentication_token' } as const;
    await queueTokenMail(db, request, { ...mail, user, to, revokes: false });
    await recordAudit(db, request, 'user_reauthenticate_requested', user);
  });
  auth.outbox.wake();
  return EMPTY;
}
