// POST /recover: mails a link to choose a new password. The response is the same for every address.
import { queueTokenMail } from '../accounts/token-mail.ts';
import { recordAudit } from '../audit.ts';
import { withMinimumDuration } from '../http/minimum-duration.ts';
import { noMail } from '../http/no-mail.ts';
import { EMPTY, type Answer, type AuthRequest } from '../http/request.ts';
import { problems } from '../problem.ts';
import { BUCKETS } from '../rate-limit.ts';
import { parseChallenge } from '../sessions/flow-state.ts';
import { parseEmail } from '../users/email-address.ts';
import { findUserByTypedEmail, updateUser } from '../users/user.ts';

export async function recover(request: AuthRequest): Promise<Answer> {
  const { auth, body, settings, now } = request;
  await auth.limiter.byAddress(BUCKETS.recover, request);
  if (body.filled('email') === undefined)
    throw problems.validationFailed('Password recovery requires an email');
  const to = parseEmail(body.text('email'));
  const challenge = parseChallenge(body);
  if (!settings.mail) return noMail(request);
  await withMinimumDuration(() =>
    auth.db.transaction(async (db) => {
      await auth.limiter.mailRequest(db, request, 'recovery', to);
      const user = await findUserByTypedEmail(db, body.text('email') ?? '');
      if (!user) return;
      await updateUser(db, user.id, now, { recovery_sent_at: now });
      const mail = { mail: 'recovery', link: 'recovery', token: 'recovery_token' } as const;
      await queueTokenMail(db, request, { ...mail, user, to, challenge, revokes: true });
      await recordAudit(db, request, 'user_recovery_requested', user);
    }),
  );
  auth.outbox.wake();
  return EMPTY;
}
