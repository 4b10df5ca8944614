// POST /recover: a mail that signs in to choose a new password. The same answer for everybody.
import type { AuthContext } from '../auth-context.ts';
import { recordAudit } from '../audit.ts';
import { parseEmail } from '../users/email-address.ts';
import { withMinimumDuration } from '../http/minimum-duration.ts';
import { parseChallenge } from '../sessions/flow-state.ts';
import { validationFailed } from '../problem.ts';
import { BUCKETS } from '../rate-limit.ts';
import { EMPTY, type Answer, type AuthRequest } from '../http/request.ts';
import { queueTokenMail } from '../accounts/token-mail.ts';
import { findUserByEmail, updateUser } from '../users/user.ts';

export async function recover(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  const { body, settings, now } = request;
  await auth.limiter.byAddress(BUCKETS.recover, request);
  if (body.filled('email') === undefined) throw validationFailed('Password recovery requires an email');
  const email = parseEmail(body.text('email'));
  const challenge = parseChallenge(body);
  if (!settings.mail) return EMPTY;
  await withMinimumDuration(() =>
    auth.db.transaction(async (db) => {
      const asked = { kind: 'recovery', gapOf: email, to: email } as const;
      await auth.limiter.mailRequest(db, asked, request, settings.mailsPerHour);
      const user = await findUserByEmail(db, email);
      if (!user) return;
      await updateUser(db, user.id, { recovery_sent_at: now }, now);
      await queueTokenMail(auth, db, request, {
        user,
        mail: 'recovery',
        link: 'recovery',
        token: 'recovery_token',
        to: email,
        challenge,
        expels: true,
      });
      await recordAudit(db, { action: 'user_recovery_requested', actor: user, ip: request.ip, now });
    }),
  );
  auth.outbox.wake();
  return EMPTY;
}
