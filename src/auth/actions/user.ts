// GET and PUT /user: the signed-in user's own record, always from the database.
import type { Queryable } from '../../postgres/owner-database.ts';
import { must } from '../../lib/assert.ts';
import type { AuthContext } from '../auth-context.ts';
import { recordAudit } from '../audit.ts';
import { applyEmail, isEmailTaken, mailEmailChange } from '../accounts/email-change.ts';
import { parseEmail } from '../users/email-address.ts';
import { parseChallenge, type Challenge } from '../sessions/flow-state.ts';
import { idsOf, lockSignedIn, type SignedIn } from '../access.ts';
import { mergeMetadata } from '../users/metadata.ts';
import { voidAllTokens } from '../sessions/one-time-token.ts';
import { checkPasswordForm, checkPasswordStrength } from '../users/password.ts';
import {
  AuthProblem,
  emailExists,
  insufficientAal,
  notAdmin,
  phoneProviderDisabled,
  samePassword,
} from '../problem.ts';
import { BUCKETS } from '../rate-limit.ts';
import { json, type Answer, type AuthRequest } from '../http/request.ts';
import { endSessions } from '../sessions/session.ts';
import { findUserById, hasVerifiedFactor, toUserJson, updateUser } from '../users/user.ts';

export function getUser(_auth: AuthContext, _request: AuthRequest, { user }: SignedIn): Promise<Answer> {
  return Promise.resolve(json(toUserJson(user)));
}

const factorNeeded = (): Error =>
  insufficientAal(401, 'AAL2 session is required to update email or password when MFA is enabled.');

type Change = {
  readonly email: string | undefined;
  readonly passwordHash: string | undefined;
  readonly challenge: Challenge | undefined;
};

export async function updateOwnUser(
  auth: AuthContext,
  request: AuthRequest,
  signedIn: SignedIn,
): Promise<Answer> {
  const { body } = request;
  const { user, session } = signedIn;
  await auth.limiter.byKey(BUCKETS.userUpdate, user.id, request);
  if (body.has('app_metadata')) throw notAdmin('Updating app_metadata requires admin privileges');
  if (body.filled('phone') !== undefined) throw phoneProviderDisabled(400);
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
  if (user.is_anonymous && password !== undefined && !user.email && email === undefined) {
    throw new AuthProblem(
      'validation_failed',
      422,
      'Updating password of an anonymous user without an email or phone is not allowed',
    );
  }
  if (user.is_sso_user && (password !== undefined || newEmail !== undefined)) {
    throw new AuthProblem(
      'user_sso_managed',
      422,
      'Updating email or password of a SSO account is not possible',
    );
  }
  if (newEmail !== undefined && (await isEmailTaken(auth.db, newEmail, user.id))) throw emailExists();
  const passwordHash =
    password === undefined ? undefined : await checkedHash(auth, password, user.encrypted_password);

  const updated = await auth.db.transaction(async (db) => {
    await applyChange(auth, db, request, signedIn, { email: newEmail, passwordHash, challenge });
    return must(await findUserById(db, user.id), 'the updated user');
  });
  auth.outbox.wake();
  return json(toUserJson(updated));
}

async function checkedHash(auth: AuthContext, password: string, current: string | null): Promise<string> {
  checkPasswordStrength(password);
  checkPasswordForm(password);
  if (current !== null && (await auth.hasher.verify(password, current))) throw samePassword();
  return await auth.hasher.hash(password);
}

async function applyChange(
  auth: AuthContext,
  db: Queryable,
  request: AuthRequest,
  signedIn: SignedIn,
  change: Change,
): Promise<void> {
  const { now, settings, ip } = request;
  // Locked and read again: another tab may have changed the metadata that is merged into.
  const { session } = signedIn;
  const { user, lacksFactor } = await lockSignedIn(db, idsOf(signedIn));
  if (lacksFactor && (change.passwordHash !== undefined || change.email !== undefined)) throw factorNeeded();
  const data = request.body.object('data');
  if (data) {
    const merged = mergeMetadata(user.raw_user_meta_data, data);
    await updateUser(db, user.id, { raw_user_meta_data: JSON.stringify(merged) }, now);
    user.raw_user_meta_data = merged;
  }
  if (change.passwordHash !== undefined) {
    await updateUser(db, user.id, { encrypted_password: change.passwordHash, password_set_at: now }, now);
    await endSessions(db, user.id, { allBut: session.id });
    await voidAllTokens(db, user.id);
    await recordAudit(db, { action: 'user_updated_password', actor: user, ip, now });
  }
  if (change.email !== undefined) {
    const isProvenByMail = settings.mail !== undefined && !(user.is_anonymous && !settings.verifyEmail);
    if (isProvenByMail) {
      const asked = { kind: 'email_change', gapOf: user.email ?? user.id, to: change.email } as const;
      await auth.limiter.mailRequest(db, asked, request, settings.mailsPerHour);
      await updateUser(
        db,
        user.id,
        { email_change: change.email, email_change_sent_at: now, email_change_confirm_status: 0 },
        now,
      );
      const pending = must(await findUserById(db, user.id), 'the user to update');
      await mailEmailChange(auth, db, request, pending, change.challenge);
    } else {
      await applyEmail(db, user, { email: change.email, proven: false, ip, now });
    }
  }
  await recordAudit(db, { action: 'user_modified', actor: user, ip, now });
}
