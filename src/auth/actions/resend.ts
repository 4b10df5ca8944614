// POST /resend: sends the mail of a sign-up or of an email change again, with new secrets.
import type { Queryable } from '../../postgres/owner-database.ts';
import type { AuthContext } from '../auth-context.ts';
import { mailEmailChange } from '../accounts/email-change.ts';
import { parseEmail } from '../users/email-address.ts';
import { withMinimumDuration } from '../http/minimum-duration.ts';
import { parseChallenge, type Challenge } from '../sessions/flow-state.ts';
import { problems } from '../problem.ts';
import { BUCKETS } from '../rate-limit.ts';
import { EMPTY, type Answer, type AuthRequest } from '../http/request.ts';
import { queueConfirmation } from '../accounts/token-mail.ts';
import { hasForeignCredentials } from '../accounts/email-ownership.ts';
import { findUserByEmail, updateUser } from '../users/user.ts';

export async function resend(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  const { body, settings } = request;
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
  if (!settings.mail) return EMPTY;
  const again = type === 'signup' ? signupAgain : emailChangeAgain;
  await withMinimumDuration(() => auth.db.transaction((db) => again(auth, db, request, email, challenge)));
  auth.outbox.wake();
  return EMPTY;
}

async function signupAgain(
  auth: AuthContext,
  db: Queryable,
  request: AuthRequest,
  email: string,
  challenge: Challenge | undefined,
): Promise<void> {
  const { now } = request;
  await auth.limiter.mailRequest(db, request, 'confirmation', email);
  const user = await findUserByEmail(db, email);
  if (!user || user.email_confirmed_at) return;
  await updateUser(db, user.id, now, { confirmation_sent_at: now });
  // Anybody may ask for the mail again: it confirms the sign-up's password only when the account holds nothing else.
  const revokes = user.encrypted_password === null || hasForeignCredentials(user);
  await queueConfirmation(auth, db, request, { user, to: email, challenge, revokes });
}

async function emailChangeAgain(
  auth: AuthContext,
  db: Queryable,
  request: AuthRequest,
  email: string,
  challenge: Challenge | undefined,
): Promise<void> {
  const { now } = request;
  await auth.limiter.mailRequest(db, request, 'email_change', email);
  const user = await findUserByEmail(db, email);
  if (!user?.email_change) return;
  // Both sides start over: the secrets of the first mails are replaced.
  await updateUser(db, user.id, now, { email_change_sent_at: now, email_change_confirm_status: 0 });
  await mailEmailChange(auth, db, request, user.id, challenge);
}
