// POST /admin/generate_link: the link and code of a mail, for callers who send mail by other means. Sends nothing, has no
// limits, and works without a mail provider.
import type { Queryable } from '../../../postgres/owner-database.ts';
import type { AuthContext } from '../../auth-context.ts';
import { ADMIN_ACTOR, recordAudit } from '../../audit.ts';
import { isEmailTaken } from '../../accounts/email-change.ts';
import { parseEmail } from '../../users/email-address.ts';
import type { JsonObject } from '../../fields.ts';
import { revokeUnverifiedCredentials, isProven } from '../../accounts/email-ownership.ts';
import { mergeMetadata } from '../../users/metadata.ts';
import type { TokenKind } from '../../sessions/one-time-token.ts';
import { checkPassword } from '../../users/password.ts';
import { problems } from '../../problem.ts';
import { json, type Answer, type AuthRequest } from '../../http/request.ts';
import { prepareToken, siteUrl, type LinkType } from '../../accounts/token-mail.ts';
import {
  findUserByEmail,
  readUser,
  insertEmailUser,
  toUserJson,
  updateUser,
  type UserRow,
} from '../../users/user.ts';
import { inviteUser } from './invite.ts';

type Plan = {
  readonly user: UserRow;
  readonly link: LinkType;
  readonly token: TokenKind;
  readonly to: string;
  readonly verificationType: string;
};

export async function generateLink(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  const { body } = request;
  const type = body.filled('type');
  const email = parseEmail(body.text('email'));
  const data = body.object('data');
  const password = body.filled('password');
  const passwordHash = type === 'signup' ? await signupHash(auth, password) : undefined;
  const answer = await auth.db.transaction(async (db) => {
    const plan = await planLink(db, request, { type, email, data, passwordHash });
    const prepared = await prepareToken(auth, db, request, {
      user: plan.user,
      link: plan.link,
      token: plan.token,
      to: plan.to,
      // The link of a sign-up keeps the password the admin gave with it.
      revokes: plan.link !== 'signup',
    });
    await recordAudit(
      db,
      request,
      plan.verificationType === 'invite' ? 'user_invited' : 'user_recovery_requested',
      ADMIN_ACTOR,
      { user_id: plan.user.id, user_email: plan.user.email ?? '', link: plan.verificationType },
    );
    const user = await readUser(db, plan.user.id);
    return {
      ...toUserJson(user),
      action_link: prepared.actionLink,
      email_otp: prepared.code,
      hashed_token: prepared.token,
      verification_type: plan.verificationType,
      redirect_to: prepared.target ?? siteUrl(request),
    };
  });
  return json(answer);
}

async function signupHash(auth: AuthContext, password: string | undefined): Promise<string> {
  if (password === undefined) throw problems.validationFailed('Signup requires a valid password');
  checkPassword(password);
  return await auth.hasher.hash(password);
}

type Order = {
  readonly type: string | undefined;
  readonly email: string;
  readonly data: JsonObject | undefined;
  readonly passwordHash: string | undefined;
};

async function planLink(db: Queryable, request: AuthRequest, order: Order): Promise<Plan> {
  const { now, body } = request;
  const { type, email, data } = order;
  const known = await findUserByEmail(db, email);
  switch (type ?? '') {
    case 'signup':
    case 'magiclink':
      // A magic link for an unknown address is a sign-up.
      if (type === 'magiclink' && known) return await recoveryPlan(db, known, 'magiclink', now);
      return await signupPlan(db, known, order, now);
    case 'invite': {
      const user = await inviteUser(db, email, mergeMetadata({}, data), now);
      await updateUser(db, user.id, now, { invited_at: now, confirmation_sent_at: now });
      return { user, link: 'invite', token: 'confirmation_token', to: email, verificationType: 'invite' };
    }
    case 'recovery':
      if (!known) throw problems.userNotFound(404);
      return await recoveryPlan(db, known, 'recovery', now);
    case 'email_change_current':
    case 'email_change_new': {
      if (!known) throw problems.userNotFound(404);
      const newEmail = parseEmail(body.text('new_email'));
      if (await isEmailTaken(db, newEmail, known.id)) throw problems.emailExists();
      // A second link for the same change keeps the progress of the first.
      const isSameChange = known.email_change === newEmail;
      await updateUser(db, known.id, now, {
        email_change: newEmail,
        email_change_sent_at: now,
        email_change_confirm_status: isSameChange ? known.email_change_confirm_status : 0,
      });
      const user = await readUser(db, known.id);
      const side = type === 'email_change_new' ? 'new' : 'current';
      return {
        user,
        link: 'email_change',
        token: `email_change_token_${side}`,
        to: side === 'new' ? newEmail : email,
        verificationType: type ?? '',
      };
    }
    default:
      throw problems.validationFailed(
        `Invalid email action link type requested: ${(type ?? '').slice(0, 40)}`,
      );
  }
}

async function recoveryPlan(
  db: Queryable,
  user: UserRow,
  link: 'magiclink' | 'recovery',
  now: Date,
): Promise<Plan> {
  await updateUser(db, user.id, now, { recovery_sent_at: now });
  return { user, link, token: 'recovery_token', to: user.email ?? '', verificationType: link };
}

async function signupPlan(db: Queryable, known: UserRow | undefined, order: Order, now: Date): Promise<Plan> {
  const { email, data, passwordHash } = order;
  if (known?.email_confirmed_at) throw problems.emailExists();
  if (known) {
    if (!isProven(known)) await revokeUnverifiedCredentials(db, known, now);
    const waiting = await readUser(db, known.id);
    const merged = mergeMetadata(waiting.raw_user_meta_data, data);
    await updateUser(db, known.id, now, {
      raw_user_meta_data: merged,
      confirmation_sent_at: now,
      ...(passwordHash === undefined ? {} : { encrypted_password: passwordHash, password_set_at: now }),
    });
    return {
      user: waiting,
      link: 'signup',
      token: 'confirmation_token',
      to: email,
      verificationType: 'signup',
    };
  }
  const id = await insertEmailUser(db, now, {
    email,
    passwordHash: passwordHash ?? null,
    data: {},
    confirmed: false,
  });
  // As for every user an admin makes: exactly the metadata the admin gave.
  const metadata = mergeMetadata({}, data);
  await updateUser(db, id, now, { raw_user_meta_data: metadata, confirmation_sent_at: now });
  const user = await readUser(db, id);
  return { user, link: 'signup', token: 'confirmation_token', to: email, verificationType: 'signup' };
}
