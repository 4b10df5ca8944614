// POST /admin/generate_link: returns the link and the code of a mail, for callers who send mail by other means. It
// sends nothing, has no rate limits, and works without a mail provider.
import type { Queryable } from '../../../postgres/owner-database.ts';
import { isEmailTaken } from '../../accounts/email-change.ts';
import { applyFirstProof, proofState } from '../../accounts/first-proof.ts';
import { prepareToken, siteUrl, type LinkType, type TokenOrder } from '../../accounts/token-mail.ts';
import { recordAdmin } from '../../audit.ts';
import type { AuthContext } from '../../auth-context.ts';
import type { JsonObject } from '../../fields.ts';
import { json, type Answer, type AuthRequest } from '../../http/request.ts';
import { problems } from '../../problem.ts';
import { parseEmail } from '../../users/email-address.ts';
import { mergeMetadata } from '../../users/metadata.ts';
import { checkPassword } from '../../users/password.ts';
import {
  findUserByEmail,
  insertEmailUser,
  lockUser,
  readUser,
  toUserJson,
  updateUser,
  type UserRow,
} from '../../users/user.ts';
import { inviteUser } from './invite.ts';

type Plan = Pick<TokenOrder, 'user' | 'token' | 'to'> & { readonly link: LinkType };

export async function generateLink(request: AuthRequest): Promise<Answer> {
  const { auth, body } = request;
  const type = body.filled('type') ?? '';
  const email = parseEmail(body.text('email'));
  const data = body.object('data');
  const password = body.filled('password');
  const passwordHash = type === 'signup' ? await signupHash(auth, password) : null;
  const answer = await auth.db.transaction(async (db) => {
    const plan = await planLink(db, request, { type, email, data, passwordHash });
    const { link } = plan;
    // The link of a sign-up keeps the password that the administrator set in this request.
    const revokes = link !== 'signup';
    const prepared = await prepareToken(db, request, { ...plan, revokes });
    const verificationType = link === 'email_change' ? type : link;
    const action = link === 'invite' ? 'user_invited' : 'user_recovery_requested';
    await recordAdmin(db, request, action, plan.user, { link: verificationType });
    return {
      ...toUserJson(await readUser(db, plan.user.id)),
      action_link: prepared.actionLink,
      email_otp: prepared.code,
      hashed_token: prepared.token,
      verification_type: verificationType,
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
  readonly type: string;
  readonly email: string;
  readonly data: JsonObject | undefined;
  readonly passwordHash: string | null;
};

async function planLink(db: Queryable, request: AuthRequest, order: Order): Promise<Plan> {
  const { now } = request;
  const { type, email, data } = order;
  const known = await findUserByEmail(db, email);
  switch (type) {
    case 'signup':
      return await planSignup(db, known, order, now);
    case 'magiclink':
      // A magic link for an unknown address is a sign-up.
      return known
        ? await planRecovery(db, known, 'magiclink', now)
        : await planSignup(db, known, order, now);
    case 'invite': {
      const user = await inviteUser(db, email, mergeMetadata({}, data), now);
      await updateUser(db, user.id, now, { invited_at: now, confirmation_sent_at: now });
      return { user, link: 'invite', token: 'confirmation_token', to: email };
    }
    case 'recovery':
      if (!known) throw problems.userNotFound(404);
      return await planRecovery(db, known, 'recovery', now);
    case 'email_change_current':
    case 'email_change_new':
      if (!known) throw problems.userNotFound(404);
      return await planEmailChange(db, request, known, type);
    default:
      throw problems.validationFailed(`Invalid email action link type requested: ${type.slice(0, 40)}`);
  }
}

async function planRecovery(
  db: Queryable,
  user: UserRow,
  link: 'magiclink' | 'recovery',
  now: Date,
): Promise<Plan> {
  await updateUser(db, user.id, now, { recovery_sent_at: now });
  return { user, link, token: 'recovery_token', to: user.email ?? '' };
}

async function planEmailChange(
  db: Queryable,
  { body, now }: AuthRequest,
  known: UserRow,
  type: 'email_change_current' | 'email_change_new',
): Promise<Plan> {
  const newEmail = parseEmail(body.text('new_email'));
  if (await isEmailTaken(db, newEmail, known.id)) throw problems.emailExists();
  // A second link for the same change keeps the progress of the first.
  const progress = known.email_change === newEmail ? known.email_change_confirm_status : 0;
  await updateUser(db, known.id, now, {
    email_change: newEmail,
    email_change_sent_at: now,
    email_change_confirm_status: progress,
  });
  const user = await readUser(db, known.id);
  const [token, to] =
    type === 'email_change_new'
      ? (['email_change_token_new', newEmail] as const)
      : (['email_change_token_current', known.email ?? ''] as const);
  return { user, link: 'email_change', token, to };
}

async function planSignup(
  db: Queryable,
  known: UserRow | undefined,
  { email, data, passwordHash }: Order,
  now: Date,
): Promise<Plan> {
  if (known?.email_confirmed_at) throw problems.emailExists();
  // The link confirms only the password of this request.
  if (known) await clearForSignup(db, known, now);
  const created = { email, passwordHash, data: mergeMetadata({}, data), confirmed: false, byAdmin: true };
  const id = known?.id ?? (await insertEmailUser(db, now, created));
  const user = await readUser(db, id);
  await updateUser(db, id, now, {
    raw_user_meta_data: mergeMetadata(user.raw_user_meta_data, data),
    confirmation_sent_at: now,
    ...(known && passwordHash !== null && { encrypted_password: passwordHash, password_set_at: now }),
  });
  return { user, link: 'signup', token: 'confirmation_token', to: email };
}

async function clearForSignup(db: Queryable, known: UserRow, now: Date): Promise<void> {
  const locked = (await lockUser(db, known.id)) ?? known;
  if (proofState(locked) === 'guarded') throw problems.emailExists();
  await applyFirstProof(db, locked, { kind: 'disown', now });
}
