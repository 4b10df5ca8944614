// POST /resend: sends the mail of a sign-up or of an email change again, with new secrets.
import type { Queryable } from '../../postgres/owner-database.ts';
import { mailEmailChange } from '../accounts/email-change.ts';
import { parseEmail } from '../users/email-address.ts';
import { withMinimumDuration } from '../http/minimum-duration.ts';
import { parseChallenge, type Challenge } from '../sessions/flow-state.ts';
import { problems } from '../problem.ts';
import { BUCKETS } from '../rate-limit.ts';
import { noMail } from '../http/no-mail.ts';
import { EMPTY, type Answer, type AuthRequest } from '../http/request.ts';
import { queueConfirmation } from '../accounts/token-mail.ts';
import { isProven } from '../accounts/email-ownership.ts';
import { findUserByTypedEmail, updateUser, type UserRow } from '../users/user.ts';

export async function resend(request: AuthRequest): Promise<Answer> {
  const { auth, body, settings } = request;
  await auth.limiter.byAddress(BUCKETS.resend, request);
  const type = body.filled('type');
  if (type === undefined || !['signup', 'email_change', 'sms', 'phone_change'].includes(type)) {
    throw problems.validationFailed('Missing or unsupported type');
  }
  const hasEmail = body.filled('email') !== undefined;
  const hasPhone = body.filled('phone') !== undefined;
  if (hasEmail && hasPhone)
    throw problems.validationFailed('Only an email address or phone number should be provided');
  if (type === 'sms' || type === 'phone_change') {
    if (!hasPhone && hasEmail) throw problems.validationFailed('Type provided requires a phone number');
    throw problems.phoneProviderDisabled(400);
  }
  if (!hasEmail) throw problems.validationFailed('Type provided requires an email address');
  const email = parseEmail(body.text('email'));
  const challenge = parseChallenge(body);
  if (!settings.mail) return noMail(request);
  const kind = type === 'signup' ? 'confirmation' : 'email_change';
  const send = type === 'signup' ? mailConfirmation : mailChange;
  await withMinimumDuration(() =>
    auth.db.transaction(async (db) => {
      await auth.limiter.mailRequest(db, request, kind, email);
      const user = await findUserByTypedEmail(db, body.text('email') ?? '');
      if (user) await send(db, request, user, challenge);
    }),
  );
  auth.outbox.wake();
  return EMPTY;
}

type Send = (
  db: Queryable,
  request: AuthRequest,
  user: UserRow,
  challenge: Challenge | undefined,
) => Promise<void>;

const mailConfirmation: Send = async (db, request, user, challenge) => {
  if (user.email === null || (user.email_confirmed_at && isProven(user))) return;
  await updateUser(db, user.id, request.now, { confirmation_sent_at: request.now });
  // An account without a password has no sign-up mail that could confirm one.
  const revokes = user.encrypted_password === null;
  await queueConfirmation(db, request, { user, to: user.email, challenge, revokes });
};

const mailChange: Send = async (db, request, user, challenge) => {
  if (!user.email_change) return;
  // Both sides start over, because the new secrets replace those of the first mails.
  const change = { email_change_sent_at: request.now, email_change_confirm_status: 0 };
  await updateUser(db, user.id, request.now, change);
  await mailEmailChange(db, request, user.id, challenge);
};
