// POST /admin/generate_link: what a mail would have carried, for whoever sends mail by other means. Sends nothing,
// waits for nothing, and works without a mail provider.
import type { Queryable } from '../../../postgres/owner-database.ts';
import { must } from '../../../lib/assert.ts';
import type { AuthContext } from '../../auth-context.ts';
import { ADMIN_ACTOR, recordAudit } from '../../audit.ts';
import { isEmailTaken } from '../../accounts/email-change.ts';
import { parseEmail } from '../../users/email-address.ts';
import type { JsonObject } from '../../fields.ts';
import { revokeUnverifiedCredentials, isProven } from '../../accounts/email-ownership.ts';
import { mergeMetadata } from '../../users/metadata.ts';
import type { TokenKind } from '../../sessions/one-time-token.ts';
import { checkPasswordForm, checkPasswordStrength } from '../../users/password.ts';
import { emailExists, userNotFound, validationFailed } from '../../problem.ts';
import { json, type Answer, type AuthRequest } from '../../http/request.ts';
import { prepareToken, siteUrl, type LinkType } from '../../accounts/token-mail.ts';
import {
  findUserByEmail,
  findUserById,
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
  const { body, now } = request;
  const type = body.filled('type');
  const email = parseEmail(body.text('email'));
  const data = body.object('data');
  const password = body.filled('password');
  const passwordHash = type === 'signup' ? await signupHash(auth, password) : undefined;
  const answer = await auth.db.transaction(async (db) => {
    const plan = await planLink(db, request, { type, email, data, passwordHash });
    const prepared = await prepareToken(auth, db, request, {
      user: plan.user,
      mail: 'confirm',
      link: plan.link,
      token: plan.token,
      to: plan.to,
      challenge: undefined,
      // A sign-up's own link spares the password that the admin gave with it.
      expels: plan.link !== 'signup',
    });
    await recordAudit(db, {
      action: plan.verificationType === 'invite' ? 'user_invited' : 'user_recovery_requested',
      actor: ADMIN_ACTOR,
      ip: request.ip,
      now,
      traits: { user_id: plan.user.id, user_email: plan.user.email ?? '', link: plan.verificationType },
    });
    const user = must(await findUserById(db, plan.user.id), 'the user of a generated link');
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
  if (password === undefined) throw validationFailed('Signup requires a valid password');
  checkPasswordForm(password);
  checkPasswordStrength(password);
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
      // A magic link for nobody is a sign-up: there is no account it could open.
      if (type === 'magiclink' && known) return await recoveryPlan(db, known, 'magiclink', now);
      return await signupPlan(db, known, order, now);
    case 'invite': {
      const user = await inviteUser(db, email, mergeMetadata({}, data), now);
      await updateUser(db, user.id, { invited_at: now, confirmation_sent_at: now }, now);
      return { user, link: 'invite', token: 'confirmation_token', to: email, verificationType: 'invite' };
    }
    case 'recovery':
      if (!known) throw userNotFound(404);
      return await recoveryPlan(db, known, 'recovery', now);
    case 'email_change_current':
    case 'email_change_new': {
      if (!known) throw userNotFound(404);
      const newEmail = parseEmail(body.text('new_email'));
      if (await isEmailTaken(db, newEmail, known.id)) throw emailExists();
      // A second link for the same change joins the first; both sides must still be opened.
      const isSameChange = known.email_change === newEmail;
      await updateUser(
        db,
        known.id,
        {
          email_change: newEmail,
          email_change_sent_at: now,
          email_change_confirm_status: isSameChange ? known.email_change_confirm_status : 0,
        },
        now,
      );
      const user = must(await findUserById(db, known.id), 'the user of a generated link');
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
      throw validationFailed(`Invalid email action link type requested: ${(type ?? '').slice(0, 40)}`);
  }
}

async function recoveryPlan(
  db: Queryable,
  user: UserRow,
  link: 'magiclink' | 'recovery',
  now: Date,
): Promise<Plan> {
  await updateUser(db, user.id, { recovery_sent_at: now }, now);
  return { user, link, token: 'recovery_token', to: user.email ?? '', verificationType: link };
}

async function signupPlan(db: Queryable, known: UserRow | undefined, order: Order, now: Date): Promise<Plan> {
  const { email, data, passwordHash } = order;
  if (known?.email_confirmed_at) throw emailExists();
  if (known) {
    if (!isProven(known)) await revokeUnverifiedCredentials(db, known, now);
    const waiting = must(await findUserById(db, known.id), 'the user of a generated link');
    const merged = mergeMetadata(waiting.raw_user_meta_data, data);
    await updateUser(
      db,
      known.id,
      {
        raw_user_meta_data: JSON.stringify(merged),
        confirmation_sent_at: now,
        ...(passwordHash === undefined ? {} : { encrypted_password: passwordHash, password_set_at: now }),
      },
      now,
    );
    return {
      user: waiting,
      link: 'signup',
      token: 'confirmation_token',
      to: email,
      verificationType: 'signup',
    };
  }
  const id = await insertEmailUser(
    db,
    { email, passwordHash: passwordHash ?? null, data: {}, confirmed: false },
    now,
  );
  // As for every user an admin makes: what the admin gave, and nothing beside it.
  const metadata = JSON.stringify(mergeMetadata({}, data));
  await updateUser(db, id, { raw_user_meta_data: metadata, confirmation_sent_at: now }, now);
  const user = must(await findUserById(db, id), 'the user of a generated link');
  return { user, link: 'signup', token: 'confirmation_token', to: email, verificationType: 'signup' };
}
