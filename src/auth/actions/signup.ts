// POST /signup: by email, anonymous, or an anonymous user who becomes a full one. Every branch of the email form
// hashes the password, so that its time does not tell whether the address is known.
import type { Queryable } from '../../postgres/owner-database.ts';
import { randomUUID } from 'node:crypto';
import { hasCode } from '../../lib/error-code.ts';
import { must } from '../../lib/assert.ts';
import type { AuthContext } from '../auth-context.ts';
import { recordAudit } from '../audit.ts';
import { parseEmail } from '../users/email-address.ts';
import { withMinimumDuration } from '../http/minimum-duration.ts';
import type { JsonObject } from '../fields.ts';
import { parseChallenge, type Challenge } from '../sessions/flow-state.ts';
import { idsOf, lockSignedIn, requireUser, type SignedIn } from '../access.ts';
import { dropPassword, hasForeignWaysIn, isProven } from '../accounts/email-ownership.ts';
import { mergeMetadata } from '../users/metadata.ts';
import { checkPasswordForm, checkPasswordStrength } from '../users/password.ts';
import {
  anonymousDisabled,
  emailExists,
  phoneProviderDisabled,
  signupDisabled,
  userAlreadyExists,
  userBanned,
} from '../problem.ts';
import { BUCKETS } from '../rate-limit.ts';
import { json, type Answer, type AuthRequest } from '../http/request.ts';
import { endSessions, openSession, type TokenResponse } from '../sessions/session.ts';
import { queueConfirmation, queueTokenMail } from '../accounts/token-mail.ts';
import {
  findUserByEmail,
  findUserById,
  insertEmailIdentity,
  insertEmailUser,
  insertUser,
  syncProviders,
  toUserJson,
  updateUser,
  type UserRow,
} from '../users/user.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';

export async function signup(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  const { body } = request;
  const isAnonymous = body.filled('email') === undefined && body.filled('phone') === undefined;
  if (isAnonymous && body.filled('password') === undefined) return await signupAnonymously(auth, request);
  return await signupByEmail(auth, request);
}

async function signupAnonymously(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  const { settings, now, body } = request;
  if (!settings.allowAnonymous) throw anonymousDisabled();
  if (!settings.allowSignup) throw signupDisabled();
  await auth.limiter.byAddress(BUCKETS.anonymous, request);
  const data = mergeMetadata({}, body.object('data'));
  const tokens = await auth.db.transaction(async (db) => {
    const id = await insertUser(
      db,
      {
        email: null,
        passwordHash: null,
        userMetadata: data,
        appMetadata: {},
        isAnonymous: true,
        confirmed: false,
        proven: false,
      },
      now,
    );
    return await openFor(auth, db, request, id, 'anonymous');
  });
  return json(tokens);
}

async function signupByEmail(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  const { settings, body } = request;
  await auth.limiter.byAddress(BUCKETS.signup, request);
  if (!settings.allowSignup) throw signupDisabled();
  if (body.filled('phone') !== undefined) throw phoneProviderDisabled(400);
  const password = body.text('password') ?? '';
  checkPasswordForm(password);
  checkPasswordStrength(password);
  const challenge = parseChallenge(body);
  const email = parseEmail(body.text('email'));
  const data = mergeMetadata({}, body.object('data'));
  const promoted = await anonymousCaller(auth, request);
  const waiting = settings.verifyEmail ? await findUserByEmail(auth.db, email) : undefined;
  // For every address, so that a waiting one takes no longer than a new one.
  const isSame = settings.verifyEmail && (await auth.hasher.verify(password, waiting?.encrypted_password));
  const sameAs = isSame ? (waiting?.encrypted_password ?? undefined) : undefined;
  const passwordHash = await auth.hasher.hash(password);
  const entry: Entry = { email, passwordHash, data, challenge, sameAs };
  if (promoted) return await promote(auth, request, promoted, entry);
  return settings.verifyEmail
    ? await awaitConfirmation(auth, request, entry)
    : await enterAtOnce(auth, request, entry);
}

type Entry = {
  readonly email: string;
  readonly passwordHash: string;
  readonly data: JsonObject;
  readonly challenge: Challenge | undefined;
  /** The hash of an earlier, unconfirmed sign-up with this address, when the password is the same. */
  readonly sameAs: string | undefined;
};

/** Without verification: a new user and a session. A row that exists is never entered without its password. */
async function enterAtOnce(auth: AuthContext, request: AuthRequest, entry: Entry): Promise<Answer> {
  try {
    const tokens = await auth.db.transaction(async (db) => {
      if (await findUserByEmail(db, entry.email)) throw userAlreadyExists();
      const id = await insertWithIdentity(db, request, entry, true);
      return await openFor(auth, db, request, id, 'password');
    });
    return json(tokens);
  } catch (error) {
    throw isTaken(error) ? userAlreadyExists() : error;
  }
}

/** With verification: the same answer for a new, a waiting and a known address. */
async function awaitConfirmation(auth: AuthContext, request: AuthRequest, entry: Entry): Promise<Answer> {
  const work = (db: Queryable): Promise<Answer> => confirmLater(auth, db, request, entry);
  let answer: Answer;
  try {
    answer = await withMinimumDuration(() => auth.db.transaction(work));
  } catch (error) {
    // Somebody signed up with this address in this very moment: the second look finds their row.
    if (!isTaken(error)) throw error;
    answer = await auth.db.transaction(work);
  }
  auth.outbox.wake();
  return answer;
}

async function confirmLater(
  auth: AuthContext,
  db: Queryable,
  request: AuthRequest,
  entry: Entry,
): Promise<Answer> {
  const { now, settings } = request;
  const asked = { kind: 'confirmation', gapOf: entry.email, to: entry.email } as const;
  await auth.limiter.mailRequest(db, asked, request, settings.mailsPerHour);
  const known = await findUserByEmail(db, entry.email);
  if (known?.email_confirmed_at) {
    await recordAudit(db, { action: 'user_repeated_signup', actor: known, ip: request.ip, now });
    return json(lookalike(entry, now));
  }
  const id = known?.id ?? (await insertWithIdentity(db, request, entry, false));
  // Two people claim an address nobody has proven: neither's password may be what the mailbox's owner confirms.
  const isContested =
    known !== undefined && (entry.sameAs === undefined || entry.sameAs !== known.encrypted_password);
  if (known && isContested && !isProven(known)) await dropPassword(db, known, now);
  await updateUser(db, id, { confirmation_sent_at: now }, now);
  const user = must(await findUserById(db, id), 'the user who signed up');
  const { email: to, challenge } = entry;
  const expels = isContested || hasForeignWaysIn(user);
  await queueConfirmation(auth, db, request, { user, to, challenge, expels });
  await recordAudit(db, { action: 'user_confirmation_requested', actor: user, ip: request.ip, now });
  // What an inviter wrote about this person is not shown to whoever types the address.
  if (user.invited_at) return json({ ...toUserJson(user), user_metadata: {}, identities: [] });
  return json(toUserJson(user));
}

async function insertWithIdentity(
  db: Queryable,
  request: AuthRequest,
  entry: Entry,
  confirmed: boolean,
): Promise<string> {
  const { now } = request;
  const { email, passwordHash, data } = entry;
  const id = await insertEmailUser(db, { email, passwordHash, data, confirmed }, now);
  if (confirmed) {
    const actor = { id, email, raw_user_meta_data: data };
    await recordAudit(db, {
      action: 'user_signedup',
      actor,
      ip: request.ip,
      now,
      traits: { provider: 'email' },
    });
  }
  return id;
}

/** The anonymous user whose token came along, if the token is good; a bad one means nobody. */
async function anonymousCaller(auth: AuthContext, request: AuthRequest): Promise<SignedIn | undefined> {
  const { bearer } = request.presented;
  if (bearer.kind !== 'token' || !bearer.claims.isAnonymous) return undefined;
  try {
    const signedIn = await requireUser(auth, request.presented, request.now);
    return signedIn.user.is_anonymous ? signedIn : undefined;
  } catch {
    // Expired, signed out, banned: an ordinary sign-up then.
    return undefined;
  }
}

async function promote(
  auth: AuthContext,
  request: AuthRequest,
  signedIn: SignedIn,
  entry: Entry,
): Promise<Answer> {
  const { now, settings } = request;
  const { email } = entry;
  if (settings.verifyEmail) {
    const answer = await auth.db.transaction(async (db) => {
      const asked = { kind: 'email_change', gapOf: email, to: email } as const;
      await auth.limiter.mailRequest(db, asked, request, settings.mailsPerHour);
      const { user, metadata } = await stillAnonymous(db, signedIn, entry);
      if (await findUserByEmail(db, email)) throw emailExists();
      await updateUser(
        db,
        user.id,
        {
          email_change: email,
          email_change_sent_at: now,
          email_change_confirm_status: 0,
          encrypted_password: entry.passwordHash,
          password_set_at: now,
          raw_user_meta_data: JSON.stringify(metadata),
        },
        now,
      );
      const pending = must(await findUserById(db, user.id), 'the user who signed up');
      await queueTokenMail(auth, db, request, {
        user: pending,
        mail: 'confirm',
        link: 'email_change',
        token: 'email_change_token_new',
        to: email,
        challenge: entry.challenge,
        expels: false,
      });
      return json(toUserJson(pending));
    });
    auth.outbox.wake();
    return answer;
  }
  try {
    const tokens = await auth.db.transaction(async (db) => {
      const { user, metadata } = await stillAnonymous(db, signedIn, entry);
      if (await findUserByEmail(db, email)) throw userAlreadyExists();
      await updateUser(
        db,
        user.id,
        {
          email,
          encrypted_password: entry.passwordHash,
          password_set_at: now,
          email_confirmed_at: now,
          is_anonymous: false,
          raw_user_meta_data: JSON.stringify({
            ...metadata,
            sub: user.id,
            email,
            email_verified: true,
            phone_verified: false,
          }),
        },
        now,
      );
      await insertEmailIdentity(db, { id: user.id, email }, entry.data, false, now);
      await syncProviders(db, user.id);
      // The anonymous session's tokens still say `anon`; the answer replaces them.
      await endSessions(db, user.id, 'all');
      const actor = { id: user.id, email };
      await recordAudit(db, {
        action: 'user_signedup',
        actor,
        ip: request.ip,
        now,
        traits: { promoted: true },
      });
      return await openFor(auth, db, request, user.id, 'password');
    });
    return json(tokens);
  } catch (error) {
    throw isTaken(error) ? userAlreadyExists() : error;
  }
}

/** The user as they are in this transaction: another request may have made them a full one, or signed them out. */
async function stillAnonymous(
  db: Queryable,
  signedIn: SignedIn,
  entry: Entry,
): Promise<{ readonly user: UserRow; readonly metadata: JsonObject }> {
  const { user } = await lockSignedIn(db, idsOf(signedIn));
  if (!user.is_anonymous) throw userAlreadyExists();
  return { user, metadata: mergeMetadata(user.raw_user_meta_data, entry.data) };
}

async function openFor(
  auth: AuthContext,
  db: Queryable,
  request: AuthRequest,
  userId: string,
  method: 'password' | 'anonymous',
): Promise<TokenResponse> {
  const user = must(await findUserById(db, userId), 'the user who signed up');
  const tokens = await openSession(auth, db, { user, method, device: request, now: request.now });
  // Only an application's trigger can have banned somebody this early.
  if (!tokens) throw userBanned(403);
  return tokens;
}

/** The user object of an address that is taken: new in every answer, and like a fresh one in every key. */
function lookalike(entry: Entry, now: Date): Readonly<Record<string, unknown>> {
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

function isTaken(error: unknown): boolean {
  return isDatabaseError(error, 'unique_violation') || hasCode(error, 'email_exists');
}
