// POST /signup: with an email address, anonymously, or for an anonymous user who becomes a full one. Every branch with an
// address hashes the password, so that the duration does not reveal whether the address is known.
import { randomUUID } from 'node:crypto';
import type { Queryable } from '../../postgres/owner-database.ts';
import { idsOf, lockSignedIn, requireUser, type SignedIn } from '../access.ts';
import { dropPassword, hasForeignCredentials, isProven } from '../accounts/email-ownership.ts';
import { isTaken } from '../accounts/provider-sign-in.ts';
import { queueConfirmation, queueTokenMail } from '../accounts/token-mail.ts';
import { recordAudit } from '../audit.ts';
import type { JsonObject } from '../fields.ts';
import { withMinimumDuration } from '../http/minimum-duration.ts';
import { json, type Answer, type AuthRequest } from '../http/request.ts';
import { orThrow, problems } from '../problem.ts';
import { BUCKETS } from '../rate-limit.ts';
import { parseChallenge, type Challenge } from '../sessions/flow-state.ts';
import { endSessions, signIn, type TokenResponse } from '../sessions/session.ts';
import { parseEmail } from '../users/email-address.ts';
import { mergeMetadata } from '../users/metadata.ts';
import { checkPassword } from '../users/password.ts';
import {
  addressClaims,
  findUserByEmail,
  insertEmailIdentity,
  insertEmailUser,
  insertUser,
  readUser,
  syncProviders,
  toUserJson,
  updateUser,
  type UserRow,
} from '../users/user.ts';

export async function signup(request: AuthRequest): Promise<Answer> {
  const { body } = request;
  const isAnonymous = body.filled('email') === undefined && body.filled('phone') === undefined;
  if (isAnonymous && body.filled('password') === undefined) return await signupAnonymously(request);
  return await signupByEmail(request);
}

async function signupAnonymously(request: AuthRequest): Promise<Answer> {
  const { auth, settings, now, body } = request;
  if (!settings.allowAnonymous) throw problems.anonymousDisabled();
  if (!settings.allowSignup) throw problems.signupDisabled();
  await auth.limiter.byAddress(BUCKETS.anonymous, request);
  const data = mergeMetadata({}, body.object('data'));
  const tokens = await auth.db.transaction(async (db) => {
    const id = await insertUser(db, now, {
      email: null,
      passwordHash: null,
      userMetadata: data,
      appMetadata: {},
      isAnonymous: true,
      confirmed: false,
      proven: false,
    });
    return orThrow(await signIn(db, request, id, 'anonymous'));
  });
  return json(tokens);
}

async function signupByEmail(request: AuthRequest): Promise<Answer> {
  const { auth, settings, body } = request;
  await auth.limiter.byAddress(BUCKETS.signup, request);
  if (!settings.allowSignup) throw problems.signupDisabled();
  if (body.filled('phone') !== undefined) throw problems.phoneProviderDisabled(400);
  const password = body.text('password') ?? '';
  checkPassword(password);
  const challenge = parseChallenge(body);
  const email = parseEmail(body.text('email'));
  const data = mergeMetadata({}, body.object('data'));
  const promoted = await anonymousCaller(request);
  const waiting = settings.verifyEmail ? await findUserByEmail(auth.db, email) : undefined;
  const waitingHash = waiting?.encrypted_password ?? undefined;
  // Also for a new address, so that it takes as long as a waiting one.
  const isSame = settings.verifyEmail && (await auth.hasher.verify(password, waitingHash));
  const passwordHash = await auth.hasher.hash(password);
  const entry: Entry = { email, passwordHash, data, challenge, sameAs: isSame ? waitingHash : undefined };
  if (settings.verifyEmail) {
    return promoted ? await promoteLater(request, promoted, entry) : await awaitConfirmation(request, entry);
  }
  const enter = promoted
    ? (db: Queryable) => promote(db, request, promoted, entry)
    : (db: Queryable) => enterAtOnce(db, request, entry);
  try {
    return json(await auth.db.transaction(enter));
  } catch (error) {
    throw isTaken(error) ? problems.userAlreadyExists() : error;
  }
}

type Entry = {
  readonly email: string;
  readonly passwordHash: string;
  readonly data: JsonObject;
  readonly challenge: Challenge | undefined;
  /** The hash of an earlier, unconfirmed sign-up with this address, when it was made with the same password. */
  readonly sameAs: string | undefined;
};

/** Without verification: a new user and a session. An existing account is never entered without its password. */
async function enterAtOnce(db: Queryable, request: AuthRequest, entry: Entry): Promise<TokenResponse> {
  if (await findUserByEmail(db, entry.email)) throw problems.userAlreadyExists();
  const { email, data } = entry;
  const id = await insertEmailUser(db, request.now, { ...entry, confirmed: true });
  const actor = { id, email, raw_user_meta_data: data };
  await recordAudit(db, request, 'user_signedup', actor, { provider: 'email' });
  return orThrow(await signIn(db, request, id, 'password'));
}

/** With verification: the same answer for a new, a waiting and a known address. */
async function awaitConfirmation(request: AuthRequest, entry: Entry): Promise<Answer> {
  const { auth } = request;
  const work = (db: Queryable): Promise<Answer> => confirmLater(db, request, entry);
  let answer: Answer;
  try {
    answer = await withMinimumDuration(() => auth.db.transaction(work));
  } catch (error) {
    // Somebody else signed up with this address at the same moment: the second attempt finds their account.
    if (!isTaken(error)) throw error;
    answer = await auth.db.transaction(work);
  }
  auth.outbox.wake();
  return answer;
}

async function confirmLater(db: Queryable, request: AuthRequest, entry: Entry): Promise<Answer> {
  const { auth, now } = request;
  await auth.limiter.mailRequest(db, request, 'confirmation', entry.email);
  const known = await findUserByEmail(db, entry.email);
  if (known?.email_confirmed_at) {
    await recordAudit(db, request, 'user_repeated_signup', known);
    return json(fakeUser(entry, now));
  }
  const id = known?.id ?? (await insertEmailUser(db, now, { ...entry, confirmed: false }));
  // Two people claim an address nobody has proven: its owner must not confirm the password of either.
  const isContested =
    known !== undefined && (entry.sameAs === undefined || entry.sameAs !== known.encrypted_password);
  if (known && isContested && !isProven(known)) await dropPassword(db, known, now);
  await updateUser(db, id, now, { confirmation_sent_at: now });
  const user = await readUser(db, id);
  const { email: to, challenge } = entry;
  const revokes = isContested || hasForeignCredentials(user);
  await queueConfirmation(db, request, { user, to, challenge, revokes });
  await recordAudit(db, request, 'user_confirmation_requested', user);
  // What an inviter wrote about this person is not shown to whoever typed the address.
  if (user.invited_at) return json({ ...toUserJson(user), user_metadata: {}, identities: [] });
  return json(toUserJson(user));
}

/** The anonymous user whose token was sent along; undefined when it is invalid. */
async function anonymousCaller(request: AuthRequest): Promise<SignedIn | undefined> {
  const { bearer } = request.presented;
  if (bearer.kind !== 'token' || !bearer.claims.isAnonymous) return undefined;
  try {
    const signedIn = await requireUser(request);
    return signedIn.user.is_anonymous ? signedIn : undefined;
  } catch {
    // Expired, signed out or banned: then this is an ordinary sign-up.
    return undefined;
  }
}

/** With verification, an anonymous user keeps the session and gets the address once it is confirmed. */
async function promoteLater(
  request: AuthRequest,
  signedIn: SignedIn,
  { email: to, passwordHash, data, challenge }: Entry,
): Promise<Answer> {
  const { auth, now } = request;
  const answer = await auth.db.transaction(async (db) => {
    await auth.limiter.mailRequest(db, request, 'email_change', to);
    const { id, raw_user_meta_data } = await lockAnonymous(db, signedIn);
    if (await findUserByEmail(db, to)) throw problems.emailExists();
    await updateUser(db, id, now, {
      email_change: to,
      email_change_sent_at: now,
      email_change_confirm_status: 0,
      encrypted_password: passwordHash,
      password_set_at: now,
      raw_user_meta_data: mergeMetadata(raw_user_meta_data, data),
    });
    const user = await readUser(db, id);
    await queueTokenMail(db, request, {
      user,
      mail: 'confirm',
      link: 'email_change',
      token: 'email_change_token_new',
      to,
      challenge,
      revokes: false,
    });
    return json(toUserJson(user));
  });
  auth.outbox.wake();
  return answer;
}

/** Without verification, an anonymous user becomes a full one at once. */
async function promote(
  db: Queryable,
  request: AuthRequest,
  signedIn: SignedIn,
  { email, passwordHash, data }: Entry,
): Promise<TokenResponse> {
  const { now } = request;
  const { id, raw_user_meta_data } = await lockAnonymous(db, signedIn);
  if (await findUserByEmail(db, email)) throw problems.userAlreadyExists();
  await updateUser(db, id, now, {
    email,
    encrypted_password: passwordHash,
    password_set_at: now,
    email_confirmed_at: now,
    is_anonymous: false,
    raw_user_meta_data: { ...mergeMetadata(raw_user_meta_data, data), ...addressClaims(id, email, true) },
  });
  await insertEmailIdentity(db, { id, email }, data, false, now);
  await syncProviders(db, id);
  // The tokens of the anonymous session still say `anon`; the answer replaces them.
  await endSessions(db, id, 'all');
  await recordAudit(db, request, 'user_signedup', { id, email }, { promoted: true });
  return orThrow(await signIn(db, request, id, 'password'));
}

/** The user as the transaction sees it: another request may have promoted or signed out the user. */
async function lockAnonymous(db: Queryable, signedIn: SignedIn): Promise<UserRow> {
  const { user } = await lockSignedIn(db, idsOf(signedIn));
  if (!user.is_anonymous) throw problems.userAlreadyExists();
  return user;
}

/** The answer for a taken address: a user object like a new one in every key, with a new id each time. */
function fakeUser(entry: Entry, now: Date): Readonly<Record<string, unknown>> {
  const time = now.toISOString();
  return {
    id: randomUUID(),
    aud: 'authenticated',
    role: '',
    email: entry.email,
    phone: '',
    confirmation_sent_at: time,
    app_metadata: { provider: 'email', providers: ['email'] },
    user_metadata: entry.data,
    identities: [],
    created_at: time,
    updated_at: time,
    is_anonymous: false,
  };
}
