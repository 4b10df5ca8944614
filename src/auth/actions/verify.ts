// /verify: redeems a mailed secret. A client posts it and gets a session. A link opened in a browser first shows a page
// with one button, because mail scanners open links too and must not use them up.
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';
import { requireApiKey } from '../access.ts';
import { applyEmail } from '../accounts/email-change.ts';
import { isProven, markProven, revokeUnverifiedCredentials } from '../accounts/email-ownership.ts';
import { recordAudit } from '../audit.ts';
import { confirmPage } from '../http/mailed-link-page.ts';
import { endWithCode, endWithProblem, endWithTokens, flowEnd, withMessage } from '../http/flow-end.ts';
import { withMinimumDuration } from '../http/minimum-duration.ts';
import { json, redirectTo, type Answer, type AuthRequest } from '../http/request.ts';
import { asProblem, orThrow, problems } from '../problem.ts';
import { BUCKETS } from '../rate-limit.ts';
import { issueCode } from '../sessions/flow-state.ts';
import * as oneTimeToken from '../sessions/one-time-token.ts';
import { signIn, type TokenResponse } from '../sessions/session.ts';
import { readEmail } from '../users/email-address.ts';
import {
  findUserByEmail,
  isBanned,
  lockUser,
  readUser,
  syncProviders,
  updateUser,
  type UserRow,
} from '../users/user.ts';

type OneTimeTokenRow = oneTimeToken.OneTimeTokenRow;

const KINDS: Readonly<Record<string, readonly oneTimeToken.TokenKind[]>> = {
  // A second request for an address that waits for its confirmation issues the other kind.
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
  | { readonly tokens: TokenResponse }
  | { readonly code: string }
  /** One side of an email change answered; the other mailbox has not. */
  | { readonly half: true; readonly isPkce: boolean }
  | Problem;

/** GET: a link. A browser or a mail scanner gets the page; a program that asks for no page is redirected at once. */
export async function verifyLink(request: AuthRequest): Promise<Answer> {
  readLink(request);
  if (wantsPage(request)) return confirmPage(request);
  return await followLink(request);
}

/** POST: a form comes from the page's button, anything else from a client. */
export async function verify(request: AuthRequest): Promise<Answer> {
  if (request.isForm) return await followLink(request);
  requireApiKey(request.presented);
  await request.auth.limiter.byAddress(BUCKETS.verify, request);
  const outcome = orThrow(await withMinimumDuration(() => redeemForClient(request)));
  if ('code' in outcome) throw new Error('a client was given a code');
  return json('tokens' in outcome ? outcome.tokens : { msg: HALF_MESSAGE, code: '200' });
}

/** HEAD of a link does nothing. */
export function verifyNothing(): Answer {
  return { status: 200 };
}

async function redeemForClient(request: AuthRequest): Promise<Outcome> {
  const { auth, body, now } = request;
  const type = body.filled('type');
  if (type === undefined) throw problems.validationFailed('Verify requires a verification type');
  const token = body.filled('token');
  const tokenHash = body.filled('token_hash');
  if ((token === undefined) === (tokenHash === undefined)) {
    throw problems.validationFailed('Verify requires either a token or a token hash');
  }
  if (tokenHash !== undefined) {
    if (body.filled('email') ?? body.filled('phone') ?? body.filled('redirect_to')) {
      throw problems.validationFailed('Only the token_hash and type should be provided');
    }
    const kinds = kindsOf(type);
    return await redeem(request, problems.linkInvalid(), 'session', (db) =>
      oneTimeToken.findByToken(db, tokenHash, kinds, now),
    );
  }
  const typed = body.filled('email');
  const phone = body.filled('phone');
  if (phone !== undefined && typed === undefined) {
    if (!/^\+?[1-9]\d{1,14}$/.test(phone))
      throw problems.validationFailed('Invalid phone number format (E.164 required)');
    // There are no users with a phone; a wrong code gets the same answer.
    throw problems.otpInvalid();
  }
  if (typed === undefined)
    throw problems.validationFailed('Only an email address or phone number should be provided on verify');
  if (PHONE_TYPES.has(type)) throw problems.validationFailed('Verify requires a phone number for this type');
  const kinds = kindsOf(type);
  const email = readEmail(typed);
  if (email === undefined) {
    throw problems.unprocessable('Unable to validate email address: invalid format');
  }
  await auth.limiter.byKey(BUCKETS.verify, `email ${email}`, request);
  return await redeem(request, problems.otpInvalid(), 'session', async (db) => {
    const userId = await ownerOfAddress(db, email, type);
    return await oneTimeToken.findByCode(auth, db, { userId, kinds, email, code: token ?? '', now });
  });
}

function kindsOf(type: string): readonly oneTimeToken.TokenKind[] {
  const kinds = Object.hasOwn(KINDS, type) ? KINDS[type] : undefined;
  if (!kinds) throw problems.validationFailed('Unsupported verification type');
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

/** Uses the secret that `find` finds, in one transaction. */
async function redeem(
  request: AuthRequest,
  notFound: Problem,
  end: 'session' | 'link',
  find: (db: Queryable) => Promise<OneTimeTokenRow | undefined>,
): Promise<Outcome> {
  const { auth, now } = request;
  // Problems are returned, not thrown: a counted wrong code must be committed.
  return await auth.db.transaction(async (db): Promise<Outcome> => {
    const row = await find(db);
    const user = row && (await lockUser(db, row.user_id));
    if (!user || user.deleted_at) return notFound;
    if (isBanned(user, now)) return problems.userBanned(403);
    if (row.token_type.startsWith('email_change')) {
      const isHalf = await confirmEmailChange(db, request, user, row);
      if (isHalf) return { half: true, isPkce: row.flow_state_id !== null };
    } else await confirmMailbox(db, request, user, row);
    if (end === 'link' && row.flow_state_id !== null) {
      const code = await issueCode(auth, db, row.flow_state_id, user.id, now);
      return code === undefined ? notFound : { code };
    }
    const tokens = await signIn(db, request, user.id, 'otp');
    return tokens instanceof Problem ? tokens : { tokens };
  });
}

/** True when this was the first half of the change. */
async function confirmEmailChange(
  db: Queryable,
  request: AuthRequest,
  user: UserRow,
  row: OneTimeTokenRow,
): Promise<boolean> {
  const { auth, now } = request;
  if (user.email && user.email_change_confirm_status === 0) {
    await oneTimeToken.voidToken(db, row.id);
    await updateUser(db, user.id, now, { email_change_confirm_status: 1 });
    return true;
  }
  await auth.limiter.endMailGap(db, 'email_change', user.email ?? user.id);
  if (row.revokes && !isProven(user)) await revokeUnverifiedCredentials(db, user, now, row.flow_state_id);
  await applyEmail(db, request, await readUser(db, user.id), user.email_change ?? '', true);
  return false;
}

async function confirmMailbox(
  db: Queryable,
  request: AuthRequest,
  user: UserRow,
  row: OneTimeTokenRow,
): Promise<void> {
  const { auth, now } = request;
  // A confirmation belongs to its own sign-up and keeps what that brought; every other mail proves the mailbox only.
  const isOwnSignUp = row.token_type === 'confirmation_token' && !row.revokes;
  if (!isOwnSignUp && !isProven(user)) await revokeUnverifiedCredentials(db, user, now, row.flow_state_id);
  await markProven(db, await readUser(db, user.id), now);
  await oneTimeToken.voidAllTokens(db, user.id);
  await syncProviders(db, user.id);
  for (const kind of ['confirmation', 'recovery'] as const)
    await auth.limiter.endMailGap(db, kind, user.email ?? '');
  if (user.email_confirmed_at === null)
    await recordAudit(db, request, 'user_signedup', user, { provider: 'email' });
}

function readLink({ query }: AuthRequest): { readonly token: string; readonly type: string } {
  const type = query.filled('type');
  const token = query.filled('token');
  if (type === undefined) throw problems.validationFailed('Verify requires a verification type');
  if (token === undefined) throw problems.validationFailed('Verify requires a token or a token hash');
  return { type, token };
}

async function followLink(request: AuthRequest): Promise<Answer> {
  const { token, type } = readLink(request);
  await request.auth.limiter.byAddress(BUCKETS.verify, request);
  const end = flowEnd(request, request.query.filled('redirect_to'), 303);
  const outcome = await redeemLink(request, token, type).catch(asProblem);
  if (outcome instanceof Problem) return endWithProblem(end, outcome, token.startsWith('pkce_'));
  if ('code' in outcome) return endWithCode(end, outcome.code);
  if ('tokens' in outcome) return endWithTokens(end, outcome.tokens, {}, { type });
  if (end.target === undefined) return json({ msg: HALF_MESSAGE, code: '200' });
  return redirectTo(303, withMessage(end.target, { message: HALF_MESSAGE }, outcome.isPkce));
}

async function redeemLink(request: AuthRequest, token: string, type: string): Promise<Outcome> {
  const kinds = kindsOf(type);
  return await redeem(request, problems.linkInvalid(), 'link', (db) =>
    oneTimeToken.findByToken(db, token, kinds, request.now),
  );
}

/** Browsers, prefetching and known mail scanners get the page. */
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
