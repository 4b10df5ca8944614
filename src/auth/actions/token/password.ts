// grant_type=password. An unknown user, a user without a password and a wrong password get the same response after the
// same work. Only a caller who knows the password learns that an account is banned or unconfirmed.
import { clientNetwork } from '../../../lib/ip-address.ts';
import { sql } from '../../../postgres/sql.ts';
import type { AuthContext } from '../../auth-context.ts';
import { SYSTEM_ACTOR, recordAudit } from '../../audit.ts';
import { readEmail } from '../../users/email-address.ts';
import { WEAK_MESSAGE, weaknesses } from '../../users/password.ts';
import { problems } from '../../problem.ts';
import { BUCKETS } from '../../rate-limit.ts';
import { json, type Answer, type AuthRequest } from '../../http/request.ts';
import { issueTokens, openSession } from '../../sessions/session.ts';
import { findUserByTypedEmail, isBanned } from '../../users/user.ts';

export async function tokenByPassword(request: AuthRequest): Promise<Answer> {
  const { auth, body, now } = request;
  await auth.limiter.byAddress(BUCKETS.token, request);
  const typed = body.filled('email');
  const phone = body.filled('phone');
  if (typed !== undefined && phone !== undefined) {
    throw problems.validationFailed('Only an email address or phone number should be provided on login.');
  }
  if (phone !== undefined) throw problems.phoneProviderDisabled(422);
  if (typed === undefined) throw problems.validationFailed('missing email or phone');
  const password = body.text('password') ?? '';

  // The limit counts by typed mailbox, so that it does not reveal whether the account exists. Every attempt is counted
  // before the check, and refunded if the password was right.
  const account = readEmail(typed) ?? typed.toLowerCase();
  const here = `${account} ${clientNetwork(request.client.address)}`;
  await auth.limiter.byKey(BUCKETS.passwordAccount, here, request);
  await auth.limiter.byKey(BUCKETS.passwordEverywhere, account, request);

  const user = await findUserByTypedEmail(auth.db, typed);
  const hash = user?.encrypted_password ?? undefined;
  const isRight = await auth.hasher.verify(password, hash);
  if (!isRight || !user || hash === undefined) {
    // Also runs for an unknown address: the same statements take the same time.
    await recordAudit(auth.db, request, 'login_failed', user ?? SYSTEM_ACTOR);
    throw problems.invalidCredentials();
  }
  await auth.limiter.refund(BUCKETS.passwordAccount, here);
  await auth.limiter.refund(BUCKETS.passwordEverywhere, account);
  if (isBanned(user, now)) throw problems.userBanned(400);
  if (!user.email_confirmed_at) throw problems.emailNotConfirmed(400);
  const opened = await openSession(auth.db, request, { user, method: 'password', verifiedHash: hash });
  if (!opened) throw problems.invalidCredentials();
  if (!auth.hasher.isCurrent(hash)) await upgradeHash(auth, user.id, password, hash);
  const tokens = await issueTokens(request, opened);
  const reasons = weaknesses(password);
  return json(reasons.length > 0 ? { ...tokens, weak_password: { message: WEAK_MESSAGE, reasons } } : tokens);
}

/** Replaces an imported hash, unless the password has changed since. */
async function upgradeHash(
  auth: AuthContext,
  userId: string,
  password: string,
  oldHash: string,
): Promise<void> {
  const newHash = await auth.hasher.hash(password);
  await auth.db.query(sql`
    update auth.users set encrypted_password = ${newHash} where id = ${userId} and encrypted_password = ${oldHash}`);
}
