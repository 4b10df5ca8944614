// GET and PUT /user: the signed-in user, always read from the database.
import type { Queryable } from '../../postgres/owner-database.ts';
import type { AuthContext } from '../auth-context.ts';
import { recordAudit } from '../audit.ts';
import { isProven } from '../accounts/email-ownership.ts';
import { proveAddress } from '../accounts/prove-address.ts';
import { applyEmail, isEmailTaken, mailEmailChange } from '../accounts/email-change.ts';
import { parseEmail } from '../users/email-address.ts';
import { parseChallenge, type Challenge } from '../sessions/flow-state.ts';
import { signedInIds, lockSignedIn, type UserRequest } from '../access.ts';
import { queueNotice } from '../mail/notice.ts';
import { mergeMetadata } from '../users/metadata.ts';
import { findByCode, voidAllTokens } from '../sessions/one-time-token.ts';
import { checkPasswordForm, checkPasswordStrength } from '../users/password.ts';
import { problems } from '../problem.ts';
import { BUCKETS, networkHash } from '../rate-limit.ts';
import { json, type Answer } from '../http/request.ts';
import { endSessions } from '../sessions/session.ts';
import { hasVerifiedFactor, readUser, toUserJson, updateUser, type UserRow } from '../users/user.ts';

export function getUser({ signedIn }: UserRequest): Answer {
  return json(toUserJson(signedIn.user));
}

const factorNeeded = (): Error =>
  problems.insufficientAal(401, 'AAL2 session is required to update email or password when MFA is enabled.');

type Change = {
  readonly email: string | undefined;
  readonly passwordHash: string | undefined;
  readonly challenge: Challenge | undefined;
};

export async function updateOwnUser(request: UserRequest): Promise<Answer> {
  const { auth, body } = request;
  const { user, session } = request.signedIn;
  await auth.limiter.byKey(BUCKETS.userUpdate, user.id, request);
  if (body.has('app_metadata')) throw problems.notAdmin('Updating app_metadata requires admin privileges');
  if (body.filled('phone') !== undefined) throw problems.phoneProviderDisabled(400);
  const password = body.text('password');
  const typedEmail = body.filled('email');
  const email = typedEmail === undefined ? undefined : parseEmail(typedEmail);
  const newEmail = email === user.email ? undefined : email;
  const challenge = parseChallenge(body);
  if (
    hasVerifiedFactor(user) &&
    session.aal === 'aal1' &&
    (password !== undefined || newEmail !== undefined)
  ) {
    throw factorNeeded();
  }
  if (session.restricted) throw problems.sessionRestricted();
  if (user.is_anonymous && password !== undefined && !user.email && email === undefined) {
    throw problems.unprocessable(
      'Updating password of an anonymous user without an email or phone is not allowed',
    );
  }
  if (user.is_sso_user && (password !== undefined || newEmail !== undefined)) {
    throw problems.userSsoManaged();
  }
  if (newEmail !== undefined && (await isEmailTaken(auth.db, newEmail, user.id)))
    throw problems.emailExists();
  const passwordHash =
    password === undefined ? undefined : await checkedHash(auth, password, user.encrypted_password);

  const updated = await auth.db.transaction(async (db) => {
    await applyChange(db, request, { email: newEmail, passwordHash, challenge });
    return await readUser(db, user.id);
  });
  auth.outbox.wake();
  return json(toUserJson(updated));
}

async function checkedHash(auth: AuthContext, password: string, current: string | null): Promise<string> {
  checkPasswordStrength(password);
  checkPasswordForm(password);
  if (current !== null && (await auth.hasher.verify(password, current))) throw problems.samePassword();
  return await auth.hasher.hash(password);
}

/**
 * Redeems a code of `/reauthenticate`, which proves the address of the account. A wrong code is counted
 * and ignored.
 */
async function redeemNonce(db: Queryable, request: UserRequest, user: UserRow): Promise<void> {
  const { auth, now, body } = request;
  const code = body.filled('nonce');
  const { email, id: userId } = user;
  if (code === undefined || email === null || isProven(user)) return;
  const kinds = ['reauthentication_token'] as const;
  // The session belongs to the caller, so the code can be used from any network.
  const attempt = { network: networkHash(request), onlyRequester: false };
  if (!(await findByCode(auth, db, { userId, kinds, emails: [email], code, now, ...attempt }))) return;
  await proveAddress(db, request, user, { kind: 'session', now });
  user.email_proven_at = now;
}

async function applyChange(db: Queryable, request: UserRequest, change: Change): Promise<void> {
  const { auth, now, settings, signedIn } = request;
  // Uses the user that was read under the lock, because another tab may have changed the metadata.
  const { user, lacksFactor } = await lockSignedIn(db, signedInIds(signedIn));
  if (lacksFactor && (change.passwordHash !== undefined || change.email !== undefined)) throw factorNeeded();
  await redeemNonce(db, request, user);
  const data = request.body.object('data');
  if (data) {
    const merged = mergeMetadata(user.raw_user_meta_data, data);
    await updateUser(db, user.id, now, { raw_user_meta_data: merged });
    user.raw_user_meta_data = merged;
  }
  if (change.passwordHash !== undefined) {
    await updateUser(db, user.id, now, { encrypted_password: change.passwordHash, password_set_at: now });
    await endSessions(db, user.id, { allBut: signedIn.session.id });
    await voidAllTokens(db, user.id);
    await recordAudit(db, request, 'user_updated_password', user);
    await queueNotice(db, request, { kind: 'password_changed', user });
  }
  if (change.email !== undefined) {
    const isProvenByMail = settings.mail !== undefined && !(user.is_anonymous && !settings.verifyEmail);
    if (isProvenByMail) {
      await auth.limiter.mailRequest(db, request, 'email_change', change.email, user.email ?? user.id);
      await updateUser(db, user.id, now, {
        email_change: change.email,
        email_change_sent_at: now,
        email_change_confirm_status: 0,
      });
      await mailEmailChange(db, request, user.id, change.challenge);
    } else await applyEmail(db, request, user, change.email, false);
  }
  await recordAudit(db, request, 'user_modified', user);
}
