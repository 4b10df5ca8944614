// Whose account a provider's profile opens: the linking rules, in one place. An account is only ever joined through
// an address the provider vouches for, and whoever owns the mailbox beats whoever merely registered its name.
import { randomUUID } from 'node:crypto';
import { must } from '../../lib/assert.ts';
import { Problem } from '../../problem/problem.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import type { AuthContext } from '../auth-context.ts';
import { recordAudit } from '../audit.ts';
import { isEmailTaken } from './email-change.ts';
import { readEmail } from '../users/email-address.ts';
import type { JsonObject } from '../fields.ts';
import { revokeUnverifiedCredentials, isProven, markProven } from './email-ownership.ts';
import { lockSignedIn } from '../access.ts';
import { mergeMetadata } from '../users/metadata.ts';
import { voidAllTokens, type OneTimeTokenRow } from '../sessions/one-time-token.ts';
import {
  AuthProblem,
  emailExists,
  emailNotConfirmed,
  identityAlreadyExists,
  identityAlreadyLinked,
  insufficientAal,
  providerEmailTaken,
  providerEmailUnverified,
  signupDisabled,
  userBanned,
} from '../problem.ts';
import type { ProviderProfile } from '../provider/provider.ts';
import type { AuthRequest } from '../http/request.ts';
import { queueConfirmation } from './token-mail.ts';
import {
  findUserByEmail,
  findUserById,
  insertUser,
  isBanned,
  lockUser,
  syncProviders,
  updateUser,
  type UserRow,
} from '../users/user.ts';

export type Linking = { readonly userId: string; readonly sessionId: string };

export type LinkOrder = {
  readonly provider: string;
  readonly profile: ProviderProfile;
  readonly emailOptional: boolean;
  /** The signed-in user who adds this identity. */
  readonly linking?: Linking | undefined;
  /** Hash of an invitation's token. */
  readonly inviteTokenHash?: string | undefined;
};

/**
 * What was done is committed either way: a new account whose address waits for its confirmation exists although
 * nobody is signed in.
 */
export type LinkOutcome =
  | { readonly kind: 'user'; readonly userId: string }
  | { readonly kind: 'refused'; readonly problem: Problem };

const asUser = (userId: string): LinkOutcome => ({ kind: 'user', userId });
const refused = (problem: Problem): LinkOutcome => ({ kind: 'refused', problem });

type Emails = {
  readonly primary: string | undefined;
  readonly isVerified: boolean;
  readonly verified: readonly string[];
};

export async function resolveIdentity(
  auth: AuthContext,
  db: Queryable,
  request: AuthRequest,
  order: LinkOrder,
): Promise<LinkOutcome> {
  const emails = readEmails(order.profile);
  if (order.linking) return await linkToUser(auth, db, request, order, emails, order.linking);
  if (order.inviteTokenHash !== undefined)
    return await acceptInvite(db, request, order, emails, order.inviteTokenHash);
  const owner = await ownerOfIdentity(db, order);
  if (owner) return await signInKnown(auth, db, request, order, emails, owner);
  if (emails.primary === undefined && !order.emailOptional) {
    throw new Error(`${order.provider} sent no email address`);
  }
  const match = await matchByVerified(db, emails);
  if (match) return await linkByAddress(db, request, order, emails, match);
  return await createUser(auth, db, request, order, emails);
}

function readEmails({ emails }: ProviderProfile): Emails {
  const readable = emails.flatMap((one) => {
    const email = readEmail(one.email);
    return email === undefined ? [] : [{ ...one, email }];
  });
  const primary = readable.find((one) => one.primary) ?? readable[0];
  return {
    primary: primary?.email,
    isVerified: primary?.verified ?? false,
    verified: readable.filter((one) => one.verified).map((one) => one.email),
  };
}

async function ownerOfIdentity(
  db: Queryable,
  { provider, profile }: LinkOrder,
): Promise<UserRow | undefined> {
  const [identity] = await db.query<{ user_id: string }>(sql`
    select user_id from auth.identities where provider = ${provider} and provider_id = ${profile.subject}`);
  return identity ? await lockUser(db, identity.user_id) : undefined;
}

/** L1: this identity has an account. Its data follows the provider; the account's address stays what it is. */
async function signInKnown(
  auth: AuthContext,
  db: Queryable,
  request: AuthRequest,
  order: LinkOrder,
  emails: Emails,
  user: UserRow,
): Promise<LinkOutcome> {
  const { now } = request;
  if (isBanned(user, now) || user.deleted_at) return refused(userBanned(403));
  const { provider, profile } = order;
  await db.query(sql`
    update auth.identities set identity_data = ${JSON.stringify(profile.claims)}, last_sign_in_at = ${now}, updated_at = ${now}
    where provider = ${provider} and provider_id = ${profile.subject}`);
  await mergeClaims(db, user, profile.claims, now);
  if (user.email === null || user.email_confirmed_at) return asUser(user.id);
  const fresh = must(await findUserById(db, user.id), 'the owner of an identity');
  const hasOthers =
    user.encrypted_password !== null || user.factors.length > 0 || othersOf(user, order).length > 0;
  if (emails.verified.includes(user.email)) {
    if (hasOthers && !isProven(user)) {
      await revokeUnverifiedCredentials(db, user, now);
      await insertIdentity(db, user.id, order, now);
      await syncProviders(db, user.id);
    }
    const owned = must(await findUserById(db, user.id), 'the owner of an identity');
    await mergeClaims(db, owned, profile.claims, now);
    await markProven(db, must(await findUserById(db, user.id), 'the owner of an identity'), now);
    return asUser(user.id);
  }
  if (!request.settings.verifyEmail) {
    await updateUser(db, user.id, { email_confirmed_at: now }, now);
    return asUser(user.id);
  }
  await mailConfirmation(auth, db, request, fresh, hasOthers);
  return refused(providerEmailUnverified(provider));
}

/** Every verified address takes part; two accounts for one profile is nobody's to decide. */
async function matchByVerified(db: Queryable, emails: Emails): Promise<UserRow | undefined> {
  if (emails.verified.length === 0) return undefined;
  const rows = await db.query<{ id: string }>(sql`
    select u.id from auth.users u where u.email = any(${emails.verified}::text[]) and not u.is_sso_user
    union
    select i.user_id from auth.identities i
    where i.email = any(${emails.verified}::text[]) and (i.identity_data ->> 'email_verified') = 'true'`);
  if (rows.length > 1) throw new Error('several accounts match the verified addresses of one profile');
  const [row] = rows;
  return row ? await lockUser(db, row.id) : undefined;
}

/** L2 to L4: the provider vouches for an address an account has. */
async function linkByAddress(
  db: Queryable,
  request: AuthRequest,
  order: LinkOrder,
  emails: Emails,
  user: UserRow,
): Promise<LinkOutcome> {
  const { now } = request;
  if (isBanned(user, now) || user.deleted_at) return refused(userBanned(403));
  if (!isProven(user)) {
    // Whoever made this account never showed the mailbox; the one who signs in now has.
    await revokeUnverifiedCredentials(db, user, now);
    // Nor what they said about themselves; only what an inviter wrote stays.
    if (!user.invited_at) await updateUser(db, user.id, { raw_user_meta_data: '{}' }, now);
  }
  await insertIdentity(db, user.id, order, now);
  const linked = must(await findUserById(db, user.id), 'the linked user');
  await mergeClaims(db, linked, order.profile.claims, now);
  const merged = must(await findUserById(db, user.id), 'the linked user');
  if (user.email !== null && emails.verified.includes(user.email)) await markProven(db, merged, now);
  await syncProviders(db, user.id);
  await recordLink(db, request, 'identity_linked', user, order);
  return asUser(user.id);
}

/** L5 to L9, L11: nobody here yet. */
async function createUser(
  auth: AuthContext,
  db: Queryable,
  request: AuthRequest,
  order: LinkOrder,
  emails: Emails,
): Promise<LinkOutcome> {
  const { now, settings } = request;
  const { primary, isVerified } = emails;
  // An address the provider does not vouch for joins nothing and shuts nobody out.
  if (primary !== undefined && (await findUserByEmail(db, primary))) {
    // A verified one was looked for a moment ago: its account is only now being made, and is to be looked for again.
    if (isVerified) throw emailExists();
    return refused(providerEmailTaken(order.provider));
  }
  if (!settings.allowSignup) return refused(signupDisabled());
  const id = randomUUID();
  const isConfirmed = primary !== undefined && (isVerified || !settings.verifyEmail);
  await insertUser(
    db,
    {
      id,
      email: primary ?? null,
      passwordHash: null,
      userMetadata: mergeMetadata({}, order.profile.claims),
      appMetadata: { provider: order.provider, providers: [order.provider] },
      isAnonymous: false,
      confirmed: isConfirmed,
      proven: isVerified,
    },
    now,
  );
  await insertIdentity(db, id, order, now);
  const user = must(await findUserById(db, id), 'the user made by a provider');
  if (primary === undefined || isConfirmed) {
    await recordLink(db, request, 'user_signedup', user, order);
    return asUser(id);
  }
  await mailConfirmation(auth, db, request, user, false);
  return refused(providerEmailUnverified(order.provider));
}

/** Why this identity cannot join the account, before anybody is asked to agree; undefined when it can. */
export async function whyNotLinked(
  db: Queryable,
  order: LinkOrder,
  linking: Linking,
  now: Date,
): Promise<Problem | undefined> {
  const found = await findLinkTarget(db, linking, now);
  return found instanceof Problem ? found : await alreadyOwned(db, order, found.id);
}

/** The account as it is now, entered by the session that began: it must live, and have shown the second factor. */
async function findLinkTarget(db: Queryable, linking: Linking, now: Date): Promise<UserRow | Problem> {
  try {
    const { user, lacksFactor } = await lockSignedIn(db, linking);
    if (isBanned(user, now)) return userBanned(403);
    return lacksFactor ? factorNeededToLink() : user;
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
}

export const factorNeededToLink = (): Problem =>
  insufficientAal(403, 'AAL2 session is required to add an identity when MFA is enabled.');

async function alreadyOwned(db: Queryable, order: LinkOrder, userId: string): Promise<Problem | undefined> {
  const owner = await ownerOfIdentity(db, order);
  if (!owner) return undefined;
  return owner.id === userId ? identityAlreadyLinked() : identityAlreadyExists();
}

/** L14: a signed-in user adds an identity. */
async function linkToUser(
  auth: AuthContext,
  db: Queryable,
  request: AuthRequest,
  order: LinkOrder,
  emails: Emails,
  linking: Linking,
): Promise<LinkOutcome> {
  const { now, settings } = request;
  const found = await findLinkTarget(db, linking, now);
  if (found instanceof Problem) return refused(found);
  const user = found;
  const taken = await alreadyOwned(db, order, user.id);
  if (taken) return refused(taken);
  const adopts = user.email === null ? emails.primary : undefined;
  if (adopts !== undefined && (await isEmailTaken(db, adopts, user.id))) return refused(emailExists(400));
  await insertIdentity(db, user.id, order, now);
  const isConfirmed = adopts !== undefined && (emails.isVerified || !settings.verifyEmail);
  const mustConfirm = adopts !== undefined && !isConfirmed;
  await updateUser(
    db,
    user.id,
    {
      is_anonymous: mustConfirm ? user.is_anonymous : false,
      ...(adopts === undefined
        ? {}
        : {
            email: adopts,
            email_confirmed_at: isConfirmed ? (user.email_confirmed_at ?? now) : null,
            email_proven_at: emails.isVerified ? now : null,
          }),
    },
    now,
  );
  const linked = must(await findUserById(db, user.id), 'the linked user');
  await mergeClaims(db, linked, order.profile.claims, now);
  await syncProviders(db, user.id);
  await recordLink(db, request, 'identity_linked', user, order);
  if (!mustConfirm) return asUser(user.id);
  await mailConfirmation(auth, db, request, must(await findUserById(db, user.id), 'the linked user'), false);
  return refused(emailNotConfirmed(422));
}

/** L13: an invitation is accepted with a provider that vouches for the invited address, or at least names it. */
async function acceptInvite(
  db: Queryable,
  request: AuthRequest,
  order: LinkOrder,
  emails: Emails,
  tokenHash: string,
): Promise<LinkOutcome> {
  const { now } = request;
  const [row] = await db.query<Pick<OneTimeTokenRow, 'user_id'>>(sql`
    select user_id from auth.one_time_tokens
    where token_hash = ${tokenHash} and token_type = 'confirmation_token' and expires_at > ${now} for update`);
  const user = row ? await lockUser(db, row.user_id) : undefined;
  if (!user?.email) return refused(new AuthProblem('invite_not_found', 404, 'Invite not found'));
  if (isBanned(user, now)) return refused(userBanned(403));
  if (!emails.verified.includes(user.email)) {
    return refused(
      new AuthProblem('validation_failed', 400, 'Invited email does not match emails from external provider'),
    );
  }
  const owner = await ownerOfIdentity(db, order);
  if (owner) return refused(identityAlreadyExists());
  if (!isProven(user)) await revokeUnverifiedCredentials(db, user, now);
  await insertIdentity(db, user.id, order, now);
  const invited = must(await findUserById(db, user.id), 'the invited user');
  await mergeClaims(db, invited, order.profile.claims, now);
  await markProven(db, must(await findUserById(db, user.id), 'the invited user'), now);
  await voidAllTokens(db, user.id);
  await syncProviders(db, user.id);
  await recordLink(db, request, 'invite_accepted', user, order);
  return asUser(user.id);
}

/** The identities of an account beside the one that signs in and the address itself. */
function othersOf(user: UserRow, { provider, profile }: LinkOrder): UserRow['identities'] {
  return user.identities.filter(
    (one) => one.provider !== 'email' && !(one.provider === provider && one.provider_id === profile.subject),
  );
}

async function recordLink(
  db: Queryable,
  { ip, now }: AuthRequest,
  action: 'identity_linked' | 'user_signedup' | 'invite_accepted',
  actor: UserRow,
  { provider }: LinkOrder,
): Promise<void> {
  await recordAudit(db, { action, actor, ip, now, traits: { provider } });
}

async function insertIdentity(
  db: Queryable,
  userId: string,
  { provider, profile }: LinkOrder,
  now: Date,
): Promise<void> {
  await db.query(sql`
    insert into auth.identities (provider, provider_id, user_id, identity_data, last_sign_in_at, created_at, updated_at)
    values (${provider}, ${profile.subject}, ${userId}, ${JSON.stringify(profile.claims)}, ${now}, ${now}, ${now})`);
}

/** What the provider says goes over same-named keys of the user's own. */
async function mergeClaims(db: Queryable, user: UserRow, claims: JsonObject, now: Date): Promise<void> {
  const merged = mergeMetadata(user.raw_user_meta_data, claims);
  await updateUser(db, user.id, { raw_user_meta_data: JSON.stringify(merged) }, now);
}

async function mailConfirmation(
  auth: AuthContext,
  db: Queryable,
  request: AuthRequest,
  user: UserRow,
  expels: boolean,
): Promise<void> {
  if (!request.settings.mail || user.email === null) return;
  const { now, settings } = request;
  const asked = { kind: 'confirmation', gapOf: user.email, to: user.email } as const;
  try {
    await auth.limiter.mailRequest(db, asked, request, settings.mailsPerHour);
    await queueConfirmation(auth, db, request, { user, to: user.email, challenge: undefined, expels });
  } catch (error) {
    // A mail went out less than a minute ago, or too many did; the answer says the same either way.
    if (error instanceof Problem && error.status === 429) return;
    throw error;
  }
  await updateUser(db, user.id, { confirmation_sent_at: now }, now);
}
