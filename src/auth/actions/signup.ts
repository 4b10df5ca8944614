// POST /signup: with an email address, anonymously, or for an anonymous user who becomes a permanent one. Every branch
// with an address hashes the password, so that the duration does not reveal whether the address is known.
import { randomUUID } from 'node:crypto';
import type { Queryable } from '../../postgres/owner-database.ts';
import { signedInIds, lockSignedIn, requireUser, type SignedIn } from '../access.ts';
import { applyFirstProof } from '../accounts/first-proof.ts';
import { isTaken } from '../accounts/provider-sign-in.ts';
import { confirmAtSignup, queueConfirmation, queueTokenMail } from '../accounts/token-mail.ts';
import { recordAudit } from '../audit.ts';
import type { JsonObject } from '../fields.ts';
import { withMinimumDuration } from '../http/minimum-duration.ts';
import { json, type Answer, type AuthRequest } from '../http/request.ts';
import { orThrow, problems } from '../problem.ts';
import { BUCKETS } from '../rate-limit.ts';
import { parseChallenge, type Challenge } from '../sessions/flow-state.ts';
import { endSessions, issueTokens, signIn, type OpenedSession } from '../sessions/session.ts';
import { parseEmail } from '../users/email-address.ts';
import { mergeMetadata } from '../users/metadata.ts';
import { checkPassword } from '../users/password.ts';
import {
  addressClaims,
  findUserByEmail,
  insertEmailIdentity,
  insertEmailUser,
  insertUser,
  lockUser,
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
  const opened = await auth.db.transaction(async (db) => {
    const id = await insertUser(db, now, {
      email: null,
      passwordHash: null,
      userMetadata: data,
      appMetadata: {},
      isAnonymous: true,
      confirmed: false,
      proven: false,
    });
    return orThrow(await signIn(db, request, id, { method: 'anonymous' }));
  });
  return json(await issueTokens(request, opened));
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
  // Runs for a new address too, so that the response takes as long as for a pending one.
  const isSame = settings.verifyEmail && (await auth.hasher.verify(password, waitingHash));
  const passwordHash = await auth.hasher.hash(password);
  const entry: Entry = { email, passwordHash, data, challenge, sameAs: isSame ? waitingHash : undefined };
  if (settings.verifyEmail) {
    return promoted ? await promoteLater(request, promoted, entry) : await awaitConfirmation(request, entry);
  }
  const enter = promoted
    ? (db: Queryable) => promote(db, request, promoted, entry)
    : (db: Queryable) => createAndSignIn(db, request, entry);
  const opened = await auth.db.transaction(enter).catch((error: unknown) => {
    throw isTaken(error) ? problems.userAlreadyExists() : error;
  });
  auth.outbox.wake();
  return json(await issueTokens(request, opened));
}

type Entry = {
  readonly email: string;
  readonly passwordHash: string;
  readonly data: JsonObject;
  readonly challenge: Challenge | undefined;
  /** Hash of an earlier, unconfirmed sign-up with this address, if it has the same password. */
  readonly sameAs: string | undefined;
};

/** Creates a user and a session, without verification. Never signs in to an existing account. */
async function createAndSignIn(db: Queryable, request: AuthRequest, entry: Entry): Promise<OpenedSession> {
  if (await findUserByEmail(db, entry.email)) throw problems.userAlreadyExists();
  const { email, data } = entry;
  const id = await insertEmailUser(db, request.now, { ...entry, confirmed: true });
  const actor = { id, email, raw_user_meta_data: data };
  await recordAudit(db, request, 'user_signedup', actor, { provider: 'email' });
  await confirmAtSignup(db, request, id, entry.challenge);
  return orThrow(await signIn(db, request, id, { method: 'password' }));
}

/** Signs up with verification. The response is the same for a new, a pending and a known address. */
async function awaitConfirmation(request: AuthRequest, entry: Entry): Promise<Answer> {
  const { auth } = request;
  const work = (db: Queryable): Promise<Answer> => confirmLater(db, request, entry);
  let answer: Answer;
  try {
    answer = await withMinimumDuration(() => auth.db.transaction(work));
  } catch (error) {
    // Another request signed up with this address at the same time. The second attempt finds its account.
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
  // Two people claim an unproven address. Its owner must not confirm the password of either.
  const isContested =
    known !== undefined && (entry.sameAs === undefined || entry.sameAs !== known.encrypted_password);
  const locked = known && isContested ? await lockUser(db, known.id) : undefined;
  if (locked) await applyFirstProof(db, locked, { kind: 'claim', now });
  await updateUser(db, id, now, { confirmation_sent_at: now });
  const user = await readUser(db, id);
  const { email: to, challenge } = entry;
  await queueConfirmation(db, request, { user, to, challenge, revokes: isContested });
  await recordAudit(db, request, 'user_confirmation_requested', user);
  // Hides the metadata that an inviter wrote about this person from a caller who only typed the address.
  if (user.invited_at) return json({ ...toUserJson(user), user_metadata: {}, identities: [] });
  return json(toUserJson(user));
}

/** Returns the anonymous user of the bearer token, or undefined if the token is invalid. */
async function anonymousCaller(request: AuthRequest): Promise<SignedIn | undefined> {
  const { bearer } = request.presented;
  if (bearer.kind !== 'token' || !bearer.claims.isAnonymous) return undefined;
  try {
    const signedIn = await requireUser(request);
    return signedIn.user.is_anonymous ? signedIn : undefined;
  } catch {
    // The caller is expired, signed out or banned, so this is an ordinary sign-up.
    return undefined;
  }
}

/** Promotes an anonymous user with verification: the session stays, and the address is set once it is confirmed. */
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

/** Promotes an anonymous user immediately, without verification. */
async function promote(
  db: Queryable,
  request: AuthRequest,
  signedIn: SignedIn,
  { email, passwordHash, data, challenge }: Entry,
): Promise<OpenedSession> {
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
  // The tokens of the anonymous session still contain `anon`. The response replaces them.
  await endSessions(db, id, 'all');
  await recordAudit(db, request, 'user_signedup', { id, email }, { promoted: true });
  await confirmAtSignup(db, request, id, challenge);
  return orThrow(await signIn(db, request, id, { method: 'password' }));
}

/** Returns the locked user. Throws if another request has promoted the user or ended the session. */
async function lockAnonymous(db: Queryable, signedIn: SignedIn): Promise<UserRow> {
  const { user } = await lockSignedIn(db, signedInIds(signedIn));
  if (!user.is_anonymous) throw problems.userAlreadyExists();
  return user;
}

/** Returns the response for a taken address. It has every key of a new user, and a new id each time. */
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
