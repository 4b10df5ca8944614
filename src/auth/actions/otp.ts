// POST /otp and /magiclink: send a mail with a link and a code. An `auth.email` block enables them. Without a mail
// provider the response is the same and nothing is sent.
import type { Queryable } from '../../postgres/owner-database.ts';
import { recordAudit } from '../audit.ts';
import { parseEmail } from '../users/email-address.ts';
import { withMinimumDuration } from '../http/minimum-duration.ts';
import type { JsonObject } from '../fields.ts';
import { parseChallenge, type Challenge } from '../sessions/flow-state.ts';
import { mergeMetadata } from '../users/metadata.ts';
import { problems } from '../problem.ts';
import { BUCKETS } from '../rate-limit.ts';
import { EMPTY, type Answer, type AuthRequest } from '../http/request.ts';
import { queueTokenMail } from '../accounts/token-mail.ts';
import { hasCredentials, isProven } from '../accounts/email-ownership.ts';
import { findUserByTypedEmail, readUser, insertEmailUser, updateUser, type UserRow } from '../users/user.ts';

export async function otp(request: AuthRequest): Promise<Answer> {
  const { auth, body, settings } = request;
  if (!settings.emailBlock) throw problems.emailSignInDisabled();
  await auth.limiter.byAddress(BUCKETS.otp, request);
  const hasEmail = body.filled('email') !== undefined;
  const hasPhone = body.filled('phone') !== undefined;
  if (hasEmail === hasPhone) {
    throw problems.validationFailed('Only an email address or phone number should be provided');
  }
  if (hasPhone) throw problems.phoneProviderDisabled(400);
  if (body.filled('channel') !== undefined) {
    throw problems.validationFailed('Channel should only be specified with Phone OTP');
  }
  return await sendOtp(request, body.flag('create_user') ?? true);
}

/** Handles `/magiclink`, an older alias that always creates the user. */
export async function magiclink(request: AuthRequest): Promise<Answer> {
  const { auth, body, settings } = request;
  if (!settings.emailBlock) throw problems.emailSignInDisabled();
  await auth.limiter.byAddress(BUCKETS.otp, request);
  if (body.filled('email') === undefined) {
    throw problems.unprocessable('Password recovery requires an email');
  }
  return await sendOtp(request, true);
}

type Order = {
  readonly email: string;
  readonly data: JsonObject;
  readonly challenge: Challenge | undefined;
  readonly creates: boolean;
};

async function sendOtp(request: AuthRequest, creates: boolean): Promise<Answer> {
  const { auth, body, settings } = request;
  const email = parseEmail(body.text('email'));
  const challenge = parseChallenge(body);
  const data = mergeMetadata({}, body.object('data'));
  if (!settings.mail) return EMPTY;
  await withMinimumDuration(() =>
    auth.db.transaction((db) => mailOtp(db, request, { email, data, challenge, creates })),
  );
  auth.outbox.wake();
  return EMPTY;
}

async function mailOtp(db: Queryable, request: AuthRequest, order: Order): Promise<void> {
  const { auth, now, settings } = request;
  await auth.limiter.mailRequest(db, request, 'recovery', order.email);
  const known = await findUserByTypedEmail(db, request.body.text('email') ?? '');
  const user = known ?? (await createForOtp(db, request, order));
  const confirms = !user.email_confirmed_at && settings.verifyEmail;
  const isOpen = known && !isProven(known) && !hasCredentials(known) && !known.invited_at;
  if (isOpen && Object.keys(order.data).length > 0) {
    // The mailbox has not confirmed yet, so the metadata of all requests is merged.
    user.raw_user_meta_data = mergeMetadata(user.raw_user_meta_data, order.data);
    await updateUser(db, user.id, now, { raw_user_meta_data: user.raw_user_meta_data });
  }
  const sentAt = confirms ? { confirmation_sent_at: now } : { recovery_sent_at: now };
  await updateUser(db, user.id, now, sentAt);
  await queueTokenMail(db, request, {
    user,
    mail: confirms ? 'confirm' : 'magic_link',
    link: confirms ? 'signup' : 'magiclink',
    // Uses the token kind that a pending sign-up or invitation does not use, so that neither mail replaces
    // the other.
    token: confirms && !hasCredentials(user) && !user.invited_at ? 'confirmation_token' : 'recovery_token',
    to: order.email,
    challenge: order.challenge,
    revokes: true,
  });
  const action = confirms ? 'user_confirmation_requested' : 'user_recovery_requested';
  await recordAudit(db, request, action, user);
}

/** Creates an unconfirmed user without a password. Only the mailed secret can sign in. */
async function createForOtp(
  db: Queryable,
  request: AuthRequest,
  { email, data, creates }: Order,
): Promise<UserRow> {
  const { now, settings } = request;
  if (!creates) throw problems.otpDisabled();
  if (!settings.allowSignup) throw problems.signupDisabled();
  const id = await insertEmailUser(db, now, { email, passwordHash: null, data, confirmed: false });
  return await readUser(db, id);
}
