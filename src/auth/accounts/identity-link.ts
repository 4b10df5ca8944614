// Decides to which account the profile of a provider signs in:
//
// | The flow                    | The identity | A verified address  | Outcome
// |
// |-----------------------------|--------------|---------------------|--------------------------------------------------|
// | of a signed-in user         | is new       | any                 | joins that user's account
// | | of a signed-in user         | has an owner | any                 | refused
// | | accepts an invitation       | is new       | is the invited one  | joins the invited account
// | | signs in                    | has an owner | any                 | signs in the owner
// | | signs in                    | is new       | has an account      | joins that account, unless it is
// guarded         | | signs in                    | is new       | has none            | a new account, if
// sign-up is allowed             |
//
// An identity joins an account only through an address that the provider reports as verified. For an unproven
// account this is the first proof of its address, see first-proof.ts.
import { randomUUID } from 'node:crypto';
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';
import { lockSignedIn, type SignedInIds } from '../access.ts';
import { recordAudit, type AuditAction } from '../audit.ts';
import type { AuthRequest } from '../http/request.ts';
import { queueNotice } from '../mail/notice.ts';
import { asProblem, problems } from '../problem.ts';
import type { ProviderProfile } from '../provider/provider.ts';
import { voidAllTokens } from '../sessions/one-time-token.ts';
import { readEmail, storedForms } from '../users/email-address.ts';
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
import { isProven } from './email-ownership.ts';
import type { Proof } from './first-proof.ts';
import { proveAddress } from './prove-address.ts';
import { confirmAtSignup, tryConfirmation } from './token-mail.ts';

export type LinkOrder = {
  readonly provider: string;
  readonly profile: ProviderProfile;
  readonly emailOptional: boolean;
  /** The signed-in user who adds this identity. */
  readonly linking?: SignedInIds | undefined;
  /** Hash of an invitation's token. */
  readonly inviteTokenHash?: string | undefined;
};

export type LinkedUser = {
  readonly userId: string;
  /** The sign-in opens a restricted session. */
  readonly isRestricted: boolean;
};

/**
 * The user, or the refusal. The caller commits in both cases, because a refusal may have created an account
 * whose
 * address is still to be confirmed.
 */
export type LinkOutcome = LinkedUser | Problem;

const linkedUser = (userId: string, isRestricted = false): LinkedUser => ({ userId, isRestricted });

/** The state of one attempt to find the account of a profile. */
type Attempt = {
  readonly db: Queryable;
  readonly request: AuthRequest;
  readonly now: Date;
  readonly order: LinkOrder;
  /** Address of the account, if it is new. */
  readonly primary: string | undefined;
  readonly isPrimaryVerified: boolean;
  /** All addresses that the provider reports as verified. */
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
  const owner = await findIdentityOwner(db, order);
  if (owner) return await signInOwner(attempt, owner);
  if (attempt.primary === undefined && !order.emailOptional) {
    throw new Error(`${order.provider} sent no email address`);
  }
  const match = await matchByVerified(attempt);
  return match ? await joinByAddress(attempt, match) : await createUser(attempt);
}

type Emails = Pick<Attempt, 'primary' | 'isPrimaryVerified' | 'verified'>;

function readEmails({ emails }: ProviderProfile): Emails {
  const readable = emails.flatMap((entry) => {
    const email = readEmail(entry.email);
    return email === undefined ? [] : [{ ...entry, email }];
  });
  const primary = readable.find((entry) => entry.primary) ?? readable[0];
  return {
    primary: primary?.email,
    isPrimaryVerified: primary?.verified ?? false,
    // Accounts that earlier versions created may have the provider's spelling of the address.
    verified: emails.filter((entry) => entry.verified).flatMap((entry) => storedForms(entry.email)),
  };
}

async function findIdentityOwner(
  db: Queryable,
  { provider, profile }: LinkOrder,
): Promise<UserRow | undefined> {
  const [identity] = await db.query<{ user_id: string }>(sql`
    select user_id from auth.identities where provider = ${provider} and provider_id = ${profile.subject}`);
  return identity ? await lockUser(db, identity.user_id) : undefined;
}

/** Returns the account of any of the verified addresses. Throws if there is more than one. */
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

/** Signs in to the account of the identity. Its data follows the provider; the account keeps its address. */
async function signInOwner(attempt: Attempt, user: UserRow): Promise<LinkOutcome> {
  const { db, request, now, order, verified } = attempt;
  if (isBanned(user, now) || user.deleted_at) return problems.userBanned(403);
  const provesAddress = user.email !== null && verified.includes(user.email);
  // Runs before the profile is stored: its own claim must not make the address count as proven.
  if (provesAddress && !isProven(user)) {
    const { next } = await proveAddress(db, request, user, providerProof(attempt));
    if (next === 'guarded') {
      await touchIdentity(attempt);
      return linkedUser(user.id, true);
    }
  }
  await touchIdentity(attempt, order.profile.claims);
  await mergeClaims(attempt, await readUser(db, user.id));
  if (user.email === null || user.email_confirmed_at || provesAddress) return linkedUser(user.id);
  if (!request.settings.verifyEmail) {
    await updateUser(db, user.id, now, { email_confirmed_at: now });
    return linkedUser(user.id);
  }
  const waiting = { user: await readUser(db, user.id), revokes: hasOtherCredentials(user, order) };
  await tryConfirmation(db, request, waiting);
  return problems.providerEmailUnverified(order.provider);
}

function providerProof({ now, order }: Attempt): Proof {
  const { provider, profile } = order;
  return { kind: 'provider', now, identity: { provider, subject: profile.subject } };
}

async function touchIdentity({ db, now, order }: Attempt, claims?: ProviderProfile['claims']): Promise<void> {
  const { provider, profile } = order;
  await db.query(sql`
    update auth.identities set identity_data = coalesce(${claims ? JSON.stringify(claims) : null}::jsonb,
      identity_data),
      last_sign_in_at = ${now}, updated_at = ${now}
    where provider = ${provider} and provider_id = ${profile.subject}`);
}

/** Returns whether the account has credentials other than this identity and the mailbox. */
function hasOtherCredentials(user: UserRow, { provider, profile }: LinkOrder): boolean {
  const isOther = (identity: UserRow['identities'][number]): boolean =>
    identity.provider !== 'email' &&
    !(identity.provider === provider && identity.provider_id === profile.subject);
  return user.encrypted_password !== null || user.factors.length > 0 || user.identities.some(isOther);
}

/** Adds the identity to the account that has the verified address. */
async function joinByAddress(attempt: Attempt, user: UserRow): Promise<LinkOutcome> {
  const { db, request, now, verified } = attempt;
  if (isBanned(user, now) || user.deleted_at) return problems.userBanned(403);
  const provesCurrentAddress = user.email !== null && verified.includes(user.email);
  const proof = { ...providerProof(attempt), provesCurrentAddress };
  const { next } = await proveAddress(db, request, user, proof);
  if (next === 'refused') return factorNeededToLink();
  await attachIdentity(attempt, user.id);
  await recordLink(attempt, 'identity_linked', user);
  return linkedUser(user.id);
}

/** Creates an account for an identity whose verified addresses have none. */
async function createUser(attempt: Attempt): Promise<LinkOutcome> {
  const { db, request, now, order, primary, isPrimaryVerified } = attempt;
  const { provider, profile } = order;
  // An unverified address must not join an existing account or replace it.
  if (primary !== undefined && (await findUserByEmail(db, primary))) {
    // A verified address means that the account was created after `matchByVerified`. The caller retries and
    // finds it.
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
    if (isConfirmed && !isPrimaryVerified) await confirmAtSignup(db, request, id);
    await recordLink(attempt, 'user_signedup', user);
    return linkedUser(id);
  }
  await tryConfirmation(db, request, { user, revokes: false });
  return problems.providerEmailUnverified(provider);
}

/**
 * Returns the account that gets the identity, or the problem. The session that began the flow must still
 * exist and must
 * have presented the factor.
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
  const owner = await findIdentityOwner(db, order);
  if (!owner) return user;
  return owner.id === user.id ? problems.identityAlreadyLinked() : problems.identityOfAnother();
}

export const factorNeededToLink = (): Problem =>
  problems.insufficientAal(403, 'AAL2 session is required to add an identity when MFA is enabled.');

/** Adds an identity to the signed-in user, with its address if the account has none. */
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
  const linked = await attachIdentity(attempt, user.id, { overwrites: false });
  await recordLink(attempt, 'identity_linked', user);
  if (!mustConfirm) return linkedUser(user.id);
  await tryConfirmation(db, request, { user: linked, revokes: false });
  return problems.emailNotConfirmed(422);
}

/** Accepts an invitation with a provider that reports the invited address as verified. */
async function acceptInvite(attempt: Attempt, tokenHash: string): Promise<LinkOutcome> {
  const { db, request, now, order, verified } = attempt;
  const [row] = await db.query<{ user_id: string }>(sql`
    select user_id from auth.one_time_tokens
    where token_hash = ${tokenHash} and token_type = 'confirmation_token' and expires_at > ${now} for update`);
  const user = row ? await lockUser(db, row.user_id) : undefined;
  if (!user?.email) return problems.inviteNotFound();
  if (isBanned(user, now)) return problems.userBanned(403);
  if (!verified.includes(user.email)) {
    return problems.validationFailed('Invited email does not match emails from external provider');
  }
  if (await findIdentityOwner(db, order)) return problems.identityOfAnother();
  const { next } = await proveAddress(db, request, user, providerProof(attempt));
  if (next === 'refused') return factorNeededToLink();
  await attachIdentity(attempt, user.id);
  await voidAllTokens(db, user.id);
  await recordLink(attempt, 'invite_accepted', user);
  return linkedUser(user.id);
}

async function recordLink(attempt: Attempt, action: AuditAction, user: UserRow): Promise<void> {
  const { db, request, order } = attempt;
  const { provider } = order;
  await recordAudit(db, request, action, user, { provider });
  if (action === 'identity_linked')
    await queueNotice(db, request, { kind: 'identity_linked', user, values: { Provider: provider } });
}

/** Adds the identity and its claims to an account. Returns the updated user. */
async function attachIdentity(
  attempt: Attempt,
  userId: string,
  merging: { readonly overwrites: boolean } = { overwrites: true },
): Promise<UserRow> {
  const { db } = attempt;
  await insertIdentity(attempt, userId);
  await mergeClaims(attempt, await readUser(db, userId), merging);
  await syncProviders(db, userId);
  return await readUser(db, userId);
}

async function insertIdentity({ db, now, order }: Attempt, userId: string): Promise<void> {
  const { provider, profile } = order;
  await db.query(sql`
    insert into auth.identities (provider, provider_id, user_id, identity_data, last_sign_in_at, created_at, updated_at)
    values (${provider}, ${profile.subject}, ${userId}, ${JSON.stringify(profile.claims)}, ${now}, ${now}, ${now})`);
}

/** Merges the provider's claims into the user's metadata. A manual link keeps the user's existing values. */
async function mergeClaims(
  { db, now, order }: Attempt,
  user: UserRow,
  { overwrites } = { overwrites: true },
): Promise<void> {
  const own = user.raw_user_meta_data;
  const { claims } = order.profile;
  const added = overwrites
    ? claims
    : Object.fromEntries(Object.entries(claims).filter(([key]) => !Object.hasOwn(own, key)));
  await updateUser(db, user.id, now, { raw_user_meta_data: mergeMetadata(own, added) });
}
