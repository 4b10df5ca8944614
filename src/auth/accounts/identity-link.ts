// Whose account a provider's profile signs in to:
//
// | The flow                    | The identity | A verified address  | Outcome                                          |
// |-----------------------------|--------------|---------------------|--------------------------------------------------|
// | of a signed-in user         | is new       | any                 | joins that user's account                        |
// | of a signed-in user         | has an owner | any                 | refused                                          |
// | accepts an invitation       | is new       | is the invited one  | joins the invited account                        |
// | signs in                    | has an owner | any                 | signs in the owner                               |
// | signs in                    | is new       | has an account      | joins that account, proven or not                |
// | signs in                    | is new       | has none            | a new account, if sign-up is allowed             |
//
// An account is only joined through an address the provider vouches for. The owner of a mailbox wins over whoever merely
// registered its address: joining an unproven account revokes what it held before.
import { randomUUID } from 'node:crypto';
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';
import { lockSignedIn, type SignedInIds } from '../access.ts';
import { recordAudit, type AuditAction } from '../audit.ts';
import type { AuthRequest } from '../http/request.ts';
import { asProblem, problems } from '../problem.ts';
import type { ProviderProfile } from '../provider/provider.ts';
import { voidAllTokens } from '../sessions/one-time-token.ts';
import { readEmail } from '../users/email-address.ts';
import { mergeMetadata } from '../users/metadata.ts';
import {
  findUserByEmail,
  insertUser,
  isBanned,
  lockUser,
  readUser,
  syncProviders,
  updateUser,
  type UserChange,
  type UserRow,
} from '../users/user.ts';
import { isEmailTaken } from './email-change.ts';
import { isProven, markProven, revokeUnverifiedCredentials } from './email-ownership.ts';
import { queueConfirmation } from './token-mail.ts';

export type LinkOrder = {
  readonly provider: string;
  readonly profile: ProviderProfile;
  readonly emailOptional: boolean;
  /** The signed-in user who adds this identity. */
  readonly linking?: SignedInIds | undefined;
  /** Hash of an invitation's token. */
  readonly inviteTokenHash?: string | undefined;
};

/**
 * The id of the user, or the refusal. The caller commits in both cases: a refusal may leave a new account behind whose
 * address waits for confirmation.
 */
export type LinkOutcome = string | Problem;

/** One profile that looks for its account. */
type Attempt = {
  readonly db: Queryable;
  readonly request: AuthRequest;
  readonly now: Date;
  readonly order: LinkOrder;
  /** The address the account gets if it is new. */
  readonly primary: string | undefined;
  readonly isPrimaryVerified: boolean;
  /** All addresses the provider vouches for. */
  readonly verified: readonly string[];
};

export async function resolveIdentity(
  db: Queryable,
  request: AuthRequest,
  order: LinkOrder,
): Promise<LinkOutcome> {
  const attempt = { db, request, now: request.now, order, ...readEmails(order.profile) };
  if (order.linking) return await linkToSignedIn(attempt, order.linking);
  if (order.inviteTokenHash !== undefined) return await acceptInvite(attempt, order.inviteTokenHash);
  const owner = await ownerOfIdentity(db, order);
  if (owner) return await signInOwner(attempt, owner);
  if (attempt.primary === undefined && !order.emailOptional) {
    throw new Error(`${order.provider} sent no email address`);
  }
  const match = await matchByVerified(attempt);
  return match ? await joinByAddress(attempt, match) : await createUser(attempt);
}

type Emails = Pick<Attempt, 'primary' | 'isPrimaryVerified' | 'verified'>;

function readEmails({ emails }: ProviderProfile): Emails {
  const readable = emails.flatMap((one) => {
    const email = readEmail(one.email);
    return email === undefined ? [] : [{ ...one, email }];
  });
  const primary = readable.find((one) => one.primary) ?? readable[0];
  return {
    primary: primary?.email,
    isPrimaryVerified: primary?.verified ?? false,
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

/** The account of any of the verified addresses. Nobody can decide between two accounts. */
async function matchByVerified({ db, verified }: Attempt): Promise<UserRow | undefined> {
  if (verified.length === 0) return undefined;
  const [row, ...others] = await db.query<{ id: string }>(sql`
    select u.id from auth.users u where u.email = any(${verified}::text[]) and not u.is_sso_user
    union
    select i.user_id from auth.identities i
    where i.email = any(${verified}::text[]) and (i.identity_data ->> 'email_verified') = 'true'`);
  if (others.length > 0) throw new Error('several accounts match the verified addresses of one profile');
  return row ? await lockUser(db, row.id) : undefined;
}

/** The identity has an account. Its data follows the provider; the account keeps its address. */
async function signInOwner(attempt: Attempt, user: UserRow): Promise<LinkOutcome> {
  const { db, request, now, order, verified } = attempt;
  const { provider, profile } = order;
  if (isBanned(user, now) || user.deleted_at) return problems.userBanned(403);
  await db.query(sql`
    update auth.identities set identity_data = ${JSON.stringify(profile.claims)}, last_sign_in_at = ${now}, updated_at = ${now}
    where provider = ${provider} and provider_id = ${profile.subject}`);
  await mergeClaims(attempt, user);
  if (user.email === null || user.email_confirmed_at) return user.id;
  const hasOthers = hasOtherCredentials(user, order);
  if (verified.includes(user.email)) {
    // `user` is from before this sign-in, whose own profile must not count as the proof.
    if (hasOthers && !isProven(user)) {
      await revokeUnverifiedCredentials(db, user, now);
      await attachIdentity(attempt, user.id);
    }
    await markProven(db, await readUser(db, user.id), now);
    return user.id;
  }
  if (!request.settings.verifyEmail) {
    await updateUser(db, user.id, now, { email_confirmed_at: now });
    return user.id;
  }
  await mailConfirmation(attempt, await readUser(db, user.id), hasOthers);
  return problems.providerEmailUnverified(provider);
}

/** Whether something besides this identity and the mailbox signs in to the account. */
function hasOtherCredentials(user: UserRow, { provider, profile }: LinkOrder): boolean {
  const isOther = (one: UserRow['identities'][number]): boolean =>
    one.provider !== 'email' && !(one.provider === provider && one.provider_id === profile.subject);
  return user.encrypted_password !== null || user.factors.length > 0 || user.identities.some(isOther);
}

/** The provider vouches for an address that has an account. */
async function joinByAddress(attempt: Attempt, user: UserRow): Promise<LinkOutcome> {
  const { db, now, verified } = attempt;
  if (isBanned(user, now) || user.deleted_at) return problems.userBanned(403);
  if (!isProven(user)) {
    // Whoever made this account never proved the mailbox; whoever signs in now has.
    await revokeUnverifiedCredentials(db, user, now);
    // Their metadata goes too, except for what an inviter wrote.
    if (!user.invited_at) await updateUser(db, user.id, now, { raw_user_meta_data: {} });
  }
  const linked = await attachIdentity(attempt, user.id);
  if (user.email !== null && verified.includes(user.email)) await markProven(db, linked, now);
  await recordLink(attempt, 'identity_linked', user);
  return user.id;
}

/** Neither the identity nor a verified address has an account. */
async function createUser(attempt: Attempt): Promise<LinkOutcome> {
  const { db, request, now, order, primary, isPrimaryVerified } = attempt;
  const { provider, profile } = order;
  // An unverified address joins no account and takes none.
  if (primary !== undefined && (await findUserByEmail(db, primary))) {
    // Verified, so the account was made after `matchByVerified` looked: the caller tries again and finds it.
    if (isPrimaryVerified) throw problems.emailExists();
    return problems.providerEmailTaken(provider);
  }
  if (!request.settings.allowSignup) return problems.signupDisabled();
  const id = randomUUID();
  const isConfirmed = primary !== undefined && (isPrimaryVerified || !request.settings.verifyEmail);
  await insertUser(db, now, {
    id,
    email: primary ?? null,
    passwordHash: null,
    userMetadata: mergeMetadata({}, profile.claims),
    appMetadata: { provider, providers: [provider] },
    isAnonymous: false,
    confirmed: isConfirmed,
    proven: isPrimaryVerified,
  });
  await insertIdentity(attempt, id);
  const user = await readUser(db, id);
  if (primary === undefined || isConfirmed) {
    await recordLink(attempt, 'user_signedup', user);
    return id;
  }
  await mailConfirmation(attempt, user, false);
  return problems.providerEmailUnverified(provider);
}

/**
 * The account that gets the identity, or why it cannot. The session that began the flow must still live and have shown
 * the factor.
 */
export async function findLinkTarget(
  db: Queryable,
  order: LinkOrder,
  linking: SignedInIds,
  now: Date,
): Promise<UserRow | Problem> {
  const locked = await lockSignedIn(db, linking).catch(asProblem);
  if (locked instanceof Problem) return locked;
  const { user, lacksFactor } = locked;
  if (isBanned(user, now)) return problems.userBanned(403);
  if (lacksFactor) return factorNeededToLink();
  const owner = await ownerOfIdentity(db, order);
  if (!owner) return user;
  return owner.id === user.id ? problems.identityAlreadyLinked() : problems.identityOfAnother();
}

export const factorNeededToLink = (): Problem =>
  problems.insufficientAal(403, 'AAL2 session is required to add an identity when MFA is enabled.');

/** A signed-in user adds an identity, and gets its address when the account has none. */
async function linkToSignedIn(attempt: Attempt, linking: SignedInIds): Promise<LinkOutcome> {
  const { db, request, now, order, primary, isPrimaryVerified } = attempt;
  const user = await findLinkTarget(db, order, linking, now);
  if (user instanceof Problem) return user;
  const newEmail = user.email === null ? primary : undefined;
  if (newEmail !== undefined && (await isEmailTaken(db, newEmail, user.id))) return problems.emailExists(400);
  const isConfirmed = isPrimaryVerified || !request.settings.verifyEmail;
  const mustConfirm = newEmail !== undefined && !isConfirmed;
  const email: UserChange =
    newEmail === undefined
      ? {}
      : {
          email: newEmail,
          email_confirmed_at: isConfirmed ? (user.email_confirmed_at ?? now) : null,
          email_proven_at: isPrimaryVerified ? now : null,
        };
  await updateUser(db, user.id, now, { is_anonymous: mustConfirm && user.is_anonymous, ...email });
  const linked = await attachIdentity(attempt, user.id);
  await recordLink(attempt, 'identity_linked', user);
  if (!mustConfirm) return user.id;
  await mailConfirmation(attempt, linked, false);
  return problems.emailNotConfirmed(422);
}

/** An invitation is accepted with a provider that vouches for the invited address. */
async function acceptInvite(attempt: Attempt, tokenHash: string): Promise<LinkOutcome> {
  const { db, now, order, verified } = attempt;
  const [row] = await db.query<{ user_id: string }>(sql`
    select user_id from auth.one_time_tokens
    where token_hash = ${tokenHash} and token_type = 'confirmation_token' and expires_at > ${now} for update`);
  const user = row ? await lockUser(db, row.user_id) : undefined;
  if (!user?.email) return problems.inviteNotFound();
  if (isBanned(user, now)) return problems.userBanned(403);
  if (!verified.includes(user.email)) {
    return problems.validationFailed('Invited email does not match emails from external provider');
  }
  if (await ownerOfIdentity(db, order)) return problems.identityOfAnother();
  if (!isProven(user)) await revokeUnverifiedCredentials(db, user, now);
  await markProven(db, await attachIdentity(attempt, user.id), now);
  await voidAllTokens(db, user.id);
  await recordLink(attempt, 'invite_accepted', user);
  return user.id;
}

async function recordLink(attempt: Attempt, action: AuditAction, user: UserRow): Promise<void> {
  const { db, request, order } = attempt;
  await recordAudit(db, request, action, user, { provider: order.provider });
}

/** Adds the identity and its claims to an account; the user as it is then. */
async function attachIdentity(attempt: Attempt, userId: string): Promise<UserRow> {
  const { db } = attempt;
  await insertIdentity(attempt, userId);
  await mergeClaims(attempt, await readUser(db, userId));
  await syncProviders(db, userId);
  return await readUser(db, userId);
}

async function insertIdentity({ db, now, order }: Attempt, userId: string): Promise<void> {
  const { provider, profile } = order;
  await db.query(sql`
    insert into auth.identities (provider, provider_id, user_id, identity_data, last_sign_in_at, created_at, updated_at)
    values (${provider}, ${profile.subject}, ${userId}, ${JSON.stringify(profile.claims)}, ${now}, ${now}, ${now})`);
}

/** The provider's claims overwrite keys of the same name in the user's metadata. */
async function mergeClaims({ db, now, order }: Attempt, user: UserRow): Promise<void> {
  const merged = mergeMetadata(user.raw_user_meta_data, order.profile.claims);
  await updateUser(db, user.id, now, { raw_user_meta_data: merged });
}

async function mailConfirmation(attempt: Attempt, user: UserRow, revokes: boolean): Promise<void> {
  const { db, request, now } = attempt;
  const { email: to } = user;
  if (!request.settings.mail || to === null) return;
  try {
    await request.auth.limiter.mailRequest(db, request, 'confirmation', to);
    await queueConfirmation(db, request, { user, to, revokes });
  } catch (error) {
    // Too many mails, or one less than a minute ago: the answer is the same.
    if (error instanceof Problem && error.status === 429) return;
    throw error;
  }
  await updateUser(db, user.id, now, { confirmation_sent_at: now });
}
