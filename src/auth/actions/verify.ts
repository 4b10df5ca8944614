// /verify: redeems a mailed secret. POST from a client answers a session. A link opened in a browser shows one
// button first, because mail scanners open links too: what they can do by looking must not use the link up.
import { must } from '../../lib/assert.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';
import type { AuthContext } from '../auth-context.ts';
import { recordAudit } from '../audit.ts';
import { confirmPage } from '../http/confirm-page.ts';
import { applyEmail } from '../accounts/email-change.ts';
import { readEmail } from '../users/email-address.ts';
import { withMinimumDuration } from '../http/minimum-duration.ts';
import { revokeUnverifiedCredentials, isProven, markProven } from '../accounts/email-ownership.ts';
import { issueCode } from '../sessions/flow-state.ts';
import { requireKey } from '../access.ts';
import {
  findByCode,
  findByToken,
  voidAllTokens,
  voidToken,
  type OneTimeTokenRow,
  type TokenKind,
} from '../sessions/one-time-token.ts';
import {
  AuthProblem,
  linkInvalid,
  otpInvalid,
  toRedirectError,
  userBanned,
  validationFailed,
} from '../problem.ts';
import { BUCKETS } from '../rate-limit.ts';
import { chooseTarget, withFragment, withQuery } from '../http/redirect.ts';
import { json, redirectTo, type Answer, type AuthRequest } from '../http/request.ts';
import { openSession, type TokenResponse } from '../sessions/session.ts';
import {
  findUserByEmail,
  findUserById,
  isBanned,
  lockUser,
  syncProviders,
  updateUser,
  type UserRow,
} from '../users/user.ts';

const KINDS: Readonly<Record<string, readonly TokenKind[]>> = {
  // An address whose sign-up waits gets the mail of a second request in the other place.
  signup: ['confirmation_token', 'recovery_token'],
  invite: ['confirmation_token'],
  recovery: ['recovery_token'],
  magiclink: ['recovery_token'],
  email: ['confirmation_token', 'recovery_token'],
  email_change: ['email_change_token_new', 'email_change_token_current'],
};
const PHONE_TYPES: ReadonlySet<string> = new Set(['sms', 'phone_change']);

const HALF_MESSAGE = 'Confirmation link accepted. Please proceed to confirm link sent to the other email';

type Outcome =
  | { readonly kind: 'session'; readonly tokens: TokenResponse }
  | { readonly kind: 'code'; readonly code: string }
  /** One side of an email change; the other mailbox has not answered yet. */
  | { readonly kind: 'half'; readonly isPkce: boolean }
  | { readonly kind: 'problem'; readonly problem: Problem };

/** GET: a link. Programs that ask for no page get the redirect at once; people and scanners get the page. */
export async function verifyLink(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  readLink(request);
  if (wantsPage(request)) return confirmPage(request);
  return await followLink(auth, request);
}

/** POST: a form is the button of the page; anything else is a client. */
export async function verify(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  if (request.isForm) return await followLink(auth, request);
  requireKey(request.presented);
  await auth.limiter.byAddress(BUCKETS.verify, request);
  const outcome = await withMinimumDuration(() => redeemForClient(auth, request));
  switch (outcome.kind) {
    case 'session':
      return json(outcome.tokens);
    case 'half':
      return json({ msg: HALF_MESSAGE, code: '200' });
    case 'problem':
      throw outcome.problem;
    case 'code':
      throw new Error('a client was given a code');
  }
}

/** HEAD of a link: nothing happens. */
export function verifyNothing(): Promise<Answer> {
  return Promise.resolve({ status: 200 });
}

async function redeemForClient(auth: AuthContext, request: AuthRequest): Promise<Outcome> {
  const { body, now } = request;
  const type = body.filled('type');
  if (type === undefined) throw validationFailed('Verify requires a verification type');
  const token = body.filled('token');
  const tokenHash = body.filled('token_hash');
  if ((token === undefined) === (tokenHash === undefined)) {
    throw validationFailed('Verify requires either a token or a token hash');
  }
  if (tokenHash !== undefined) {
    if (body.filled('email') ?? body.filled('phone') ?? body.filled('redirect_to')) {
      throw validationFailed('Only the token_hash and type should be provided');
    }
    const kinds = kindsOf(type);
    return await redeem(auth, request, linkInvalid(), 'session', (db) =>
      findByToken(db, tokenHash, kinds, now),
    );
  }
  const typed = body.filled('email');
  const phone = body.filled('phone');
  if (phone !== undefined && typed === undefined) {
    if (!/^\+?[1-9]\d{1,14}$/.test(phone))
      throw validationFailed('Invalid phone number format (E.164 required)');
    // There are no phone users, and this is what a wrong code says too.
    throw otpInvalid();
  }
  if (typed === undefined)
    throw validationFailed('Only an email address or phone number should be provided on verify');
  if (PHONE_TYPES.has(type)) throw validationFailed('Verify requires a phone number for this type');
  const kinds = kindsOf(type);
  const email = readEmail(typed);
  if (email === undefined) {
    throw new AuthProblem('validation_failed', 422, 'Unable to validate email address: invalid format');
  }
  await auth.limiter.byKey(BUCKETS.verify, `email ${email}`, request);
  return await redeem(auth, request, otpInvalid(), 'session', async (db) => {
    const userId = await ownerOfAddress(db, email, type);
    return await findByCode(auth, db, { userId, kinds, email, code: token ?? '', now });
  });
}

function kindsOf(type: string): readonly TokenKind[] {
  const kinds = Object.hasOwn(KINDS, type) ? KINDS[type] : undefined;
  if (!kinds) throw validationFailed('Unsupported verification type');
  return kinds;
}

/** A code of an email change may have gone to the address that is not the user's yet. */
async function ownerOfAddress(db: Queryable, email: string, type: string): Promise<string | undefined> {
  const user = await findUserByEmail(db, email);
  if (type !== 'email_change') return user?.id;
  if (user?.email_change) return user.id;
  const [pending] = await db.query<{ user_id: string }>(sql`
    select user_id from auth.one_time_tokens
    where token_type = 'email_change_token_new' and relates_to = ${email} order by created_at desc limit 1`);
  return pending?.user_id ?? user?.id;
}

/** Consumes the secret that `find` finds and does what it stands for, in one transaction. */
async function redeem(
  auth: AuthContext,
  request: AuthRequest,
  notFound: Problem,
  end: 'session' | 'link',
  find: (db: Queryable) => Promise<OneTimeTokenRow | undefined>,
): Promise<Outcome> {
  const { now } = request;
  return await auth.db.transaction(async (db): Promise<Outcome> => {
    const row = await find(db);
    // Returned, not thrown: a counted wrong code must be committed.
    if (!row) return { kind: 'problem', problem: notFound };
    const user = must(await lockUser(db, row.user_id), 'the owner of a one-time token');
    if (user.deleted_at) return { kind: 'problem', problem: notFound };
    if (isBanned(user, now)) return { kind: 'problem', problem: userBanned(403) };
    const isHalf = await consume(auth, db, request, user, row);
    if (isHalf) return { kind: 'half', isPkce: row.flow_state_id !== null };
    if (end === 'link' && row.flow_state_id !== null) {
      const code = await issueCode(auth, db, row.flow_state_id, user.id, now);
      return code === undefined ? { kind: 'problem', problem: notFound } : { kind: 'code', code };
    }
    const fresh = must(await findUserById(db, user.id), 'the owner of a one-time token');
    const tokens = await openSession(auth, db, { user: fresh, method: 'otp', device: request, now });
    return tokens ? { kind: 'session', tokens } : { kind: 'problem', problem: userBanned(403) };
  });
}

/** True when this was the first half of an email change. */
async function consume(
  auth: AuthContext,
  db: Queryable,
  request: AuthRequest,
  user: UserRow,
  row: OneTimeTokenRow,
): Promise<boolean> {
  const { now, ip } = request;
  if (row.token_type === 'email_change_token_new' || row.token_type === 'email_change_token_current') {
    const email = user.email_change ?? '';
    if (user.email && user.email_change_confirm_status === 0) {
      await voidToken(db, row.id);
      await updateUser(db, user.id, { email_change_confirm_status: 1 }, now);
      return true;
    }
    await auth.limiter.endMailGap(db, 'email_change', user.email ?? user.id);
    if (row.expels && !isProven(user)) await revokeUnverifiedCredentials(db, user, now, row.flow_state_id);
    const changing = must(await findUserById(db, user.id), 'the owner of a one-time token');
    await applyEmail(db, changing, { email, proven: true, ip, now });
    return false;
  }
  const isFirstConfirmation = user.email_confirmed_at === null;
  // A confirmation belongs to the sign-up it was made for and spares what that brought; any other mail proves the
  // mailbox and nothing else.
  const isOwnSignUp = row.token_type === 'confirmation_token' && !row.expels;
  if (!isOwnSignUp && !isProven(user)) await revokeUnverifiedCredentials(db, user, now, row.flow_state_id);
  const known = must(await findUserById(db, user.id), 'the owner of a one-time token');
  await markProven(db, known, now);
  await voidAllTokens(db, user.id);
  await syncProviders(db, user.id);
  for (const kind of ['confirmation', 'recovery'] as const) {
    await auth.limiter.endMailGap(db, kind, user.email ?? '');
  }
  if (isFirstConfirmation) {
    await recordAudit(db, { action: 'user_signedup', actor: user, ip, now, traits: { provider: 'email' } });
  }
  return false;
}

type Link = { readonly token: string; readonly type: string };

function readLink({ query }: AuthRequest): Link {
  const type = query.filled('type');
  const token = query.filled('token');
  if (type === undefined) throw validationFailed('Verify requires a verification type');
  if (token === undefined) throw validationFailed('Verify requires a token or a token hash');
  return { type, token };
}

async function followLink(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  const { token, type } = readLink(request);
  await auth.limiter.byAddress(BUCKETS.verify, request);
  const target = chooseTarget(request.query.filled('redirect_to'), request.settings, request.authUrl);
  const isPkce = token.startsWith('pkce_');
  const outcome = await redeemLink(auth, request, token, type);
  switch (outcome.kind) {
    case 'code':
      return target === undefined
        ? json({ code: outcome.code })
        : redirectTo(303, withQuery(target, { code: outcome.code }));
    case 'session': {
      const { tokens } = outcome;
      if (target === undefined) return json(tokens);
      const { access_token, expires_at, expires_in, refresh_token, token_type } = tokens;
      return redirectTo(
        303,
        withFragment(target, { access_token, expires_at, expires_in, refresh_token, token_type, type }),
      );
    }
    case 'half': {
      if (target === undefined) return json({ msg: HALF_MESSAGE, code: '200' });
      const message = { message: HALF_MESSAGE };
      return redirectTo(303, withFragment(outcome.isPkce ? withQuery(target, message) : target, message));
    }
    case 'problem': {
      if (target === undefined) throw outcome.problem;
      const error = toRedirectError(outcome.problem);
      return redirectTo(303, withFragment(isPkce ? withQuery(target, error) : target, error));
    }
  }
}

async function redeemLink(
  auth: AuthContext,
  request: AuthRequest,
  token: string,
  type: string,
): Promise<Outcome> {
  try {
    const kinds = kindsOf(type);
    return await redeem(auth, request, linkInvalid(), 'link', (db) =>
      findByToken(db, token, kinds, request.now),
    );
  } catch (error) {
    if (error instanceof Problem) return { kind: 'problem', problem: error };
    throw error;
  }
}

/** Whoever asks for a page, looks ahead, or is known to read mail for others gets the page. */
function wantsPage(request: AuthRequest): boolean {
  const accept = request.header('accept') ?? '';
  const purpose = `${request.header('purpose') ?? ''} ${request.header('sec-purpose') ?? ''} ${request.header('x-purpose') ?? ''}`;
  return (
    /\btext\/html\b/i.test(accept) ||
    /prefetch|preview/i.test(purpose) ||
    SCANNER.test(request.userAgent ?? '')
  );
}

const SCANNER =
  /bot\b|crawl|spider|preview|scan|safelinks|proofpoint|mimecast|barracuda|facebookexternalhit|whatsapp|slack|telegram|urldefense|microsoft office|outlook/i;
