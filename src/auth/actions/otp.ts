// POST /otp and /magiclink: a mail with a link and a code. Exists only with an `auth.email` block; without a
// provider it answers as always and does nothing.
import type { Queryable } from '../../postgres/owner-database.ts';
import { must } from '../../lib/assert.ts';
import type { AuthContext } from '../auth-context.ts';
import { recordAudit } from '../audit.ts';
import { parseEmail } from '../users/email-address.ts';
import { withMinimumDuration } from '../http/minimum-duration.ts';
import type { JsonObject } from '../fields.ts';
import { parseChallenge, type Challenge } from '../sessions/flow-state.ts';
import { mergeMetadata } from '../users/metadata.ts';
import {
  AuthProblem,
  emailProviderDisabled,
  otpDisabled,
  phoneProviderDisabled,
  signupDisabled,
  validationFailed,
} from '../problem.ts';
import { BUCKETS } from '../rate-limit.ts';
import { EMPTY, type Answer, type AuthRequest } from '../http/request.ts';
import { queueTokenMail } from '../accounts/token-mail.ts';
import { holdsWaysIn, isProven, signUpMetadata } from '../accounts/email-ownership.ts';
import { findUserByEmail, findUserById, insertEmailUser, updateUser, type UserRow } from '../users/user.ts';

export async function otp(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  const { body, settings } = request;
  if (!settings.emailBlock) throw emailProviderDisabled(404);
  await auth.limiter.byAddress(BUCKETS.otp, request);
  const hasEmail = body.filled('email') !== undefined;
  const hasPhone = body.filled('phone') !== undefined;
  if (hasEmail === hasPhone) {
    throw validationFailed('Only an email address or phone number should be provided');
  }
  if (hasPhone) throw phoneProviderDisabled(400);
  if (body.filled('channel') !== undefined) {
    throw validationFailed('Channel should only be specified with Phone OTP');
  }
  return await sendOtp(auth, request, body.flag('create_user') ?? true);
}

/** The older alias: always creates. */
export async function magiclink(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  const { body, settings } = request;
  if (!settings.emailBlock) throw emailProviderDisabled(404);
  await auth.limiter.byAddress(BUCKETS.otp, request);
  if (body.filled('email') === undefined) {
    throw new AuthProblem('validation_failed', 422, 'Password recovery requires an email');
  }
  return await sendOtp(auth, request, true);
}

type Order = {
  readonly email: string;
  readonly data: JsonObject;
  readonly challenge: Challenge | undefined;
  readonly creates: boolean;
};

async function sendOtp(auth: AuthContext, request: AuthRequest, creates: boolean): Promise<Answer> {
  const { body, settings } = request;
  const email = parseEmail(body.text('email'));
  const challenge = parseChallenge(body);
  const data = mergeMetadata({}, body.object('data'));
  if (!settings.mail) return EMPTY;
  await withMinimumDuration(() =>
    auth.db.transaction((db) => mailOtp(auth, db, request, { email, data, challenge, creates })),
  );
  auth.outbox.wake();
  return EMPTY;
}

async function mailOtp(auth: AuthContext, db: Queryable, request: AuthRequest, order: Order): Promise<void> {
  const { now, settings } = request;
  const asked = { kind: 'recovery', gapOf: order.email, to: order.email } as const;
  await auth.limiter.mailRequest(db, asked, request, settings.mailsPerHour);
  const known = await findUserByEmail(db, order.email);
  const user = known ?? (await createForOtp(db, request, order));
  const confirms = !user.email_confirmed_at && settings.verifyEmail;
  const isOpen = known && !isProven(known) && !holdsWaysIn(known) && !known.invited_at;
  if (isOpen && Object.keys(order.data).length > 0) {
    // Nobody has answered yet: what the latest to ask says of themselves replaces what an earlier one said.
    user.raw_user_meta_data = { ...order.data, ...signUpMetadata(user) };
    await updateUser(db, user.id, { raw_user_meta_data: JSON.stringify(user.raw_user_meta_data) }, now);
  }
  const sentAt = confirms ? { confirmation_sent_at: now } : { recovery_sent_at: now };
  await updateUser(db, user.id, sentAt, now);
  await queueTokenMail(auth, db, request, {
    user,
    mail: confirms ? 'confirm' : 'magic_link',
    link: confirms ? 'signup' : 'magiclink',
    // A sign-up that waits for its own confirmation keeps it: neither mail replaces the other.
    token: confirms && !holdsWaysIn(user) && !user.invited_at ? 'confirmation_token' : 'recovery_token',
    to: order.email,
    challenge: order.challenge,
    expels: true,
  });
  const action = confirms ? 'user_confirmation_requested' : 'user_recovery_requested';
  await recordAudit(db, { action, actor: user, ip: request.ip, now });
}

/** Without password and unconfirmed: only the mail's secret opens this account. */
async function createForOtp(
  db: Queryable,
  request: AuthRequest,
  { email, data, creates }: Order,
): Promise<UserRow> {
  const { now, settings } = request;
  if (!creates) throw otpDisabled();
  if (!settings.allowSignup) throw signupDisabled();
  const id = await insertEmailUser(db, { email, passwordHash: null, data, confirmed: false }, now);
  return must(await findUserById(db, id), 'the user made for a one-time password');
}
