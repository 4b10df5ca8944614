// /verify: redeems a mailed secret. A client posts it and gets a session. A link opened in a browser first
// shows a page
// with one button, because mail scanners open links too and must not use them up.
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';
import { requireApiKey } from '../access.ts';
import { applyEmail } from '../accounts/email-change.ts';
import { proveAddress, type RecordedProof } from '../accounts/prove-address.ts';
import { readLinkView } from '../accounts/link-view.ts';
import { recordAudit } from '../audit.ts';
import { isUuid } from '../fields.ts';
import { disownedPage, mailedLinkPage, readChoice, type LinkChoice } from '../http/mailed-link-page.ts';
import { endWithCode, endWithProblem, endWithTokens, flowEnd, withMessage } from '../http/flow-end.ts';
import { hasValidLinkForm } from '../http/link-form.ts';
import { withMinimumDuration } from '../http/minimum-duration.ts';
import { json, redirectTo, type Answer, type AuthRequest } from '../http/request.ts';
import { asProblem, orThrow, problems } from '../problem.ts';
import { BUCKETS, networkHash } from '../rate-limit.ts';
import { issueCode } from '../sessions/flow-state.ts';
import * as oneTimeToken from '../sessions/one-time-token.ts';
import { issueTokens, signIn, type OpenedSession, type TokenResponse } from '../sessions/session.ts';
import { readEmail, storedForms } from '../users/email-address.ts';
import {
  findUserByTypedEmail,
  isBanned,
  lockUser,
  readUser,
  syncProviders,
  updateUser,
  type UserRow,
} from '../users/user.ts';

type OneTimeTokenRow = oneTimeToken.OneTimeTokenRow;

const KINDS: Readonly<Record<string, readonly oneTimeToken.TokenKind[]>> = {
  // A second request for an unconfirmed address issues the other kind of token.
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
  /** The first of two mailboxes has confirmed the email change. */
  | { readonly half: true; readonly isPkce: boolean }
  | { readonly disowned: 'cleared' | 'flagged' }
  | Problem;

/** The outcome of the transaction, before tokens are made. */
type Redeemed = Exclude<Outcome, { readonly tokens: TokenResponse }> | { readonly opened: OpenedSession };

/**
 * Handles GET of a link. Browsers, mail scanners and unknown programs get the page; client libraries get a
 * redirect.
 */
export async function verifyLink(request: AuthRequest): Promise<Answer> {
  return wantsPage(request) ? await linkPage(request) : await followLink(request);
}

/** Handles POST. A form comes from the button on the page, anything else from a client. */
export async function verify(request: AuthRequest): Promise<Answer> {
  if (request.isForm) return await followForm(request);
  requireApiKey(request.presented);
  await request.auth.limiter.byAddress(BUCKETS.verify, request);
  const outcome = orThrow(await withMinimumDuration(() => redeemForClient(request)));
  if ('code' in outcome) throw new Error('a client was given a code');
  return json('tokens' in outcome ? outcome.tokens : { msg: HALF_MESSAGE, code: '200' });
}

/** Handles HEAD of a link, which must have no effect. */
export function verifyNothing(): Answer {
  return { status: 200 };
}

async function linkPage(request: AuthRequest, isExpired = false): Promise<Answer> {
  const view = await readLinkView(request, readLink(request).token);
  return mailedLinkPage(request, view, isExpired);
}

/** Redeems the link. Shows the page again if its form has expired or did not come from the page. */
async function followForm(request: AuthRequest): Promise<Answer> {
  return hasValidLinkForm(request) ? await followLink(request) : await linkPage(request, true);
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
    return await redeem(request, linkSecret(request, tokenHash, type), { end: 'session' });
  }
  const typed = body.filled('email');
  const phone = body.filled('phone');
  if (phone !== undefined && typed === undefined) {
    if (!/^\+?[1-9]\d{1,14}$/.test(phone))
      throw problems.validationFailed('Invalid phone number format (E.164 required)');
    // No user has a phone number, and a wrong code gets the same response.
    throw problems.otpInvalid();
  }
  if (typed === undefined)
    throw problems.validationFailed('Only an email address or phone number should be provided on verify');
  if (PHONE_TYPES.has(type)) throw problems.validationFailed('Verify requires a phone number for this type');
  const kinds = tokenKinds(type);
  const email = readEmail(typed);
  if (email === undefined) {
    throw problems.unprocessable('Unable to validate email address: invalid format');
  }
  const { onlyRequester, refund } = await auth.limiter.codeAttempt(email, request);
  const emails = storedForms(typed);
  const attempt = { kinds, emails, code: token ?? '', now, network: networkHash(request), onlyRequester };
  const secret: Secret = {
    type,
    notFound: problems.otpInvalid(),
    findOwner: (db) => ownerOfAddress(db, typed, type),
    find: (db, userId) => oneTimeToken.findByCode(auth, db, { ...attempt, userId }),
  };
  const outcome = await redeem(request, secret, { end: 'session' });
  if (!(outcome instanceof Problem)) await refund();
  return outcome;
}

/** A mailed secret, as presented by the request. */
type Secret = {
  readonly type: string;
  readonly notFound: Problem;
  readonly findOwner: (db: Queryable) => Promise<string | undefined>;
  readonly find: (db: Queryable, userId: string | undefined) => Promise<OneTimeTokenRow | undefined>;
};

function linkSecret({ now }: AuthRequest, token: string, type: string): Secret {
  const kinds = tokenKinds(type);
  return {
    type,
    notFound: problems.linkInvalid(),
    findOwner: async (db) => await oneTimeToken.findOwner(db, token),
    find: async (db) => await oneTimeToken.findByToken(db, token, kinds, now),
  };
}

function tokenKinds(type: string): readonly oneTimeToken.TokenKind[] {
  const kinds = Object.hasOwn(KINDS, type) ? KINDS[type] : undefined;
  if (!kinds) throw problems.validationFailed('Unsupported verification type');
  return kinds;
}

/**
 * Returns the owner of the address. The code of an email change may have gone to an address that is still
 * pending.
 */
async function ownerOfAddress(db: Queryable, typed: string, type: string): Promise<string | undefined> {
  const user = await findUserByTypedEmail(db, typed);
  if (type !== 'email_change') return user?.id;
  if (user?.email_change) return user.id;
  const [pending] = await db.query<{ user_id: string }>(sql`
    select user_id from auth.one_time_tokens
    where token_type = 'email_change_token_new' and relates_to = any(${storedForms(typed)}::text[])
      order by created_at desc limit 1`);
  return pending?.user_id ?? user?.id;
}

type Redemption = {
  readonly end: 'session' | 'link';
  /** Choice of the owner on the page of the link. */
  readonly choice?: LinkChoice | undefined;
};

/** Redeems a secret in one transaction. */
async function redeem(request: AuthRequest, secret: Secret, { end, choice }: Redemption): Promise<Outcome> {
  const { auth, now } = request;
  const { notFound } = secret;
  // Problems are returned, not thrown, so that the count of wrong codes is committed.
  const outcome = await auth.db.transaction(async (db): Promise<Redeemed> => {
    // Locks the user before the secret, in the same order as a proof, which locks the user and then removes
    // all secrets.
    const ownerId = await secret.findOwner(db);
    const owner = ownerId === undefined ? undefined : await lockUser(db, ownerId);
    const row = await secret.find(db, ownerId);
    const user = row && owner?.id === row.user_id ? owner : undefined;
    if (!row || !user || user.deleted_at) return notFound;
    if (isBanned(user, now)) return problems.userBanned(403);
    await auth.limiter.trustNetwork(db, request, row.relates_to);
    const proof = await classifyProof(db, request, { user, row, secret, choice });
    if (proof.kind === 'disown') return (await disown(db, request, user)) ?? notFound;
    const proven = row.token_type.startsWith('email_change')
      ? await confirmEmailChange(db, request, { user, row, proof })
      : await confirmMailbox(db, request, { user, row, proof });
    if (proven === 'half') return { half: true, isPkce: row.flow_state_id !== null };
    const isRestricted = proven === 'guarded';
    if (end === 'link' && row.flow_state_id !== null) {
      const order = { flowId: row.flow_state_id, userId: user.id, now, isRestricted };
      const code = await issueCode(auth, db, order);
      return code === undefined ? notFound : { code };
    }
    const opened = await signIn(db, request, user.id, { method: 'otp', isRestricted });
    return opened instanceof Problem ? opened : { opened };
  });
  auth.outbox.wake();
  return 'opened' in outcome ? { tokens: await issueTokens(request, outcome.opened) } : outcome;
}

type ProvenSecret = { readonly user: UserRow; readonly row: OneTimeTokenRow; readonly proof: RecordedProof };

/** Returns the proof that redeeming the secret gives. */
async function classifyProof(
  db: Queryable,
  request: AuthRequest,
  redeemed: Omit<ProvenSecret, 'proof'> & Pick<Redemption, 'choice'> & { readonly secret: Secret },
): Promise<RecordedProof> {
  const { user, row, choice, secret } = redeemed;
  const common = {
    now: request.now,
    flowId: row.flow_state_id,
    isKept: choice === 'keep',
    // After a recovery link the client sets a password.
    notifies: secret.type !== 'recovery',
  };
  const isOwn = oneTimeToken.isOwnConfirmation(row);
  if (isOwn && choice === 'disown') return { ...common, kind: 'disown' };
  // Only a signed-in user can start an email change, and both mailboxes confirm it.
  const isOwnChange = row.token_type.startsWith('email_change') && !row.revokes;
  if (isOwnChange || (await hasOwnSession(db, request, user))) return { ...common, kind: 'session' };
  return { ...common, kind: isOwn ? 'own' : 'mailbox' };
}

/** Returns true if the request has a token of the user with a live, unrestricted session. */
async function hasOwnSession(
  db: Queryable,
  { presented, now }: AuthRequest,
  user: UserRow,
): Promise<boolean> {
  const { bearer } = presented;
  if (bearer.kind !== 'token' || bearer.claims.sub !== user.id) return false;
  const { sessionId } = bearer.claims;
  if (sessionId === null || !isUuid(sessionId)) return false;
  const [alive] = await db.query(sql`
    select 1 from auth.sessions
    where id = ${sessionId} and user_id = ${user.id} and not restricted and (not_after is null or not_after > ${now})`);
  return alive !== undefined;
}

async function confirmEmailChange(
  db: Queryable,
  request: AuthRequest,
  { user, row, proof }: ProvenSecret,
): Promise<'half' | 'guarded' | 'proven'> {
  const { auth, now } = request;
  if (user.email && user.email_change_confirm_status === 0) {
    await oneTimeToken.voidToken(db, row);
    await updateUser(db, user.id, now, { email_change_confirm_status: 1 });
    return 'half';
  }
  await auth.limiter.endMailGap(db, 'email_change', user.email ?? user.id);
  const { next } = await proveAddress(db, request, user, { ...proof, provesCurrentAddress: false });
  const isGuarded = next === 'guarded';
  await applyEmail(db, request, await readUser(db, user.id), user.email_change ?? '', !isGuarded);
  return isGuarded ? 'guarded' : 'proven';
}

async function confirmMailbox(
  db: Queryable,
  request: AuthRequest,
  { user, row, proof }: ProvenSecret,
): Promise<'guarded' | 'proven'> {
  const { auth } = request;
  const { next } = await proveAddress(db, request, user, proof);
  for (const kind of ['confirmation', 'recovery'] as const)
    await auth.limiter.endMailGap(db, kind, user.email ?? '');
  if (next === 'guarded') {
    await oneTimeToken.voidToken(db, row);
    return 'guarded';
  }
  await syncProviders(db, user.id);
  if (user.email_confirmed_at === null)
    await recordAudit(db, request, 'user_signedup', user, { provider: 'email' });
  return 'proven';
}

/** Returns undefined if the address is already proven: the account then belongs to its owner. */
async function disown(
  db: Queryable,
  request: AuthRequest,
  user: UserRow,
): Promise<{ readonly disowned: 'cleared' | 'flagged' } | undefined> {
  const { next } = await proveAddress(db, request, user, { kind: 'disown', now: request.now });
  if (next === 'proven') return undefined;
  await recordAudit(db, request, 'account_disowned', user);
  return { disowned: next === 'guarded' ? 'flagged' : 'cleared' };
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
  const choice = readChoice(request);
  const secret = linkSecret(request, token, type);
  const outcome = await redeem(request, secret, { end: 'link', choice }).catch(asProblem);
  if (outcome instanceof Problem) return endWithProblem(end, outcome, token.startsWith('pkce_'));
  if ('disowned' in outcome) return disownedPage(request, outcome.disowned);
  if ('code' in outcome) return endWithCode(end, outcome.code);
  if ('tokens' in outcome) return endWithTokens(end, outcome.tokens, {}, { type });
  if (end.target === undefined) return json({ msg: HALF_MESSAGE, code: '200' });
  return redirectTo(303, withMessage(end.target, { message: HALF_MESSAGE }, outcome.isPkce));
}

/**
 * Returns whether to show the page. Only an identified client library and a program on this machine redeem a
 * link by GET.
 * Office and mail scanners open links before the person does, and no list of their names is complete.
 */
function wantsPage(request: AuthRequest): boolean {
  const accept = request.header('accept') ?? '';
  const purpose = ['purpose', 'sec-purpose', 'x-purpose'].map((name) => request.header(name) ?? '').join(' ');
  if (/prefetch|preview/i.test(purpose) || /\btext\/html\b/i.test(accept)) return true;
  const isClient = request.header('apikey') !== undefined || request.header('x-client-info') !== undefined;
  return !isClient && request.client.via !== 'local';
}
