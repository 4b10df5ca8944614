// The first proof of an address. Anybody who knows an address can create an account with it, so the first proof decides
// which credentials of the account survive. `TABLE` has the decision for every state of the account and every proof. A
// verified second factor takes precedence over a mailbox. `user_metadata` grants no right and is never removed.
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { voidAllTokens } from '../sessions/one-time-token.ts';
import {
  hasVerifiedFactor,
  insertEmailIdentity,
  syncProviders,
  updateUser,
  type UserRow,
} from '../users/user.ts';
import { hasForeignCredentials, isProven, markProven } from './email-ownership.ts';
import { endOpenAccess } from './open-access.ts';

/**
 * `bare`: unproven, without credentials. `password`: unproven, with a password only. `foreign`: unproven,
 * with a provider
 * identity. `guarded`: unproven, with a verified factor.
 */
export type ProofState = 'bare' | 'password' | 'foreign' | 'guarded' | 'proven';

/**
 * - `own`: the confirmation mail of the sign-up that set the password.
 * - `mailbox`: any other mailed link or code.
 * - `provider`: a provider reports the address as verified.
 * - `session`: a mailed secret, redeemed together with a live session of the account.
 * - `admin`: an administrator confirms the address and sets the password.
 * - `factor`: a verified factor, used in a restricted session.
 * - `claim`: not a proof; another person requests the address.
 * - `disown`: the mailbox owner states that the account is not theirs.
 */
export type ProofKind = 'own' | 'mailbox' | 'provider' | 'session' | 'admin' | 'factor' | 'claim' | 'disown';

export type IdentityKey = { readonly provider: string; readonly subject: string };

export type Proof = {
  readonly kind: ProofKind;
  readonly now: Date;
  /**
   * True if the owner chose, on the page of a mailed link, to keep the credentials that the table leaves
   * to them.
   */
  readonly isKept?: boolean | undefined;
  /** The identity of a `provider` proof. */
  readonly identity?: IdentityKey | undefined;
  /** The flow that this proof continues. It survives `endOpenAccess`. */
  readonly flowId?: string | null | undefined;
  /** False if the proof concerns another address than the account's current one. */
  readonly provesCurrentAddress?: boolean | undefined;
};

export type ProofOutcome = {
  /** `refused`: the identity must not be linked. `guarded`: the sign-in opens a restricted session. */
  readonly next: 'proven' | 'guarded' | 'unproven' | 'refused';
  readonly removed: ReadonlyArray<'password' | 'identities'>;
};

type Effect = {
  readonly password: 'keep' | 'remove' | 'ask';
  readonly identities: 'keep' | 'remove' | 'ask' | 'keep proving';
  /** `end`: sessions, flows, mailed secrets, pending changes and unverified factors. */
  readonly access: 'keep' | 'void tokens' | 'end' | 'ask';
  readonly next: ProofOutcome['next'];
};

const effect = (
  password: Effect['password'],
  identities: Effect['identities'],
  access: Effect['access'],
  next: Effect['next'],
): Effect => ({ password, identities, access, next });

const CONFIRMED = effect('keep', 'keep', 'void tokens', 'proven');
const UNCHANGED = effect('keep', 'keep', 'keep', 'unproven');
const STILL_GUARDED = effect('keep', 'keep', 'keep', 'guarded');
const CLEARED = effect('remove', 'remove', 'end', 'unproven');
const BY_ADMIN = effect('keep', 'remove', 'end', 'proven');

const TABLE: Readonly<Record<Exclude<ProofState, 'proven'>, Readonly<Record<ProofKind, Effect>>>> = {
  bare: {
    // A session may outlive the credential that opened it, so it ends here too.
    own: effect('keep', 'keep', 'end', 'proven'),
    mailbox: effect('keep', 'keep', 'end', 'proven'),
    provider: effect('keep', 'keep', 'end', 'proven'),
    session: CONFIRMED,
    admin: BY_ADMIN,
    factor: UNCHANGED,
    claim: UNCHANGED,
    disown: CLEARED,
  },
  password: {
    own: CONFIRMED,
    mailbox: effect('ask', 'keep', 'end', 'proven'),
    provider: effect('remove', 'keep', 'end', 'proven'),
    session: CONFIRMED,
    admin: BY_ADMIN,
    factor: UNCHANGED,
    claim: effect('remove', 'keep', 'keep', 'unproven'),
    disown: CLEARED,
  },
  foreign: {
    own: effect('keep', 'ask', 'ask', 'proven'),
    mailbox: effect('remove', 'remove', 'end', 'proven'),
    provider: effect('remove', 'keep proving', 'end', 'proven'),
    session: CONFIRMED,
    admin: BY_ADMIN,
    factor: UNCHANGED,
    claim: effect('remove', 'keep', 'keep', 'unproven'),
    disown: CLEARED,
  },
  guarded: {
    own: CONFIRMED,
    mailbox: STILL_GUARDED,
    // `decide` refuses an identity that is not on the account yet.
    provider: STILL_GUARDED,
    session: CONFIRMED,
    admin: BY_ADMIN,
    factor: CONFIRMED,
    claim: STILL_GUARDED,
    disown: STILL_GUARDED,
  },
};

export function proofState(user: UserRow): ProofState {
  if (isProven(user)) return 'proven';
  if (hasVerifiedFactor(user)) return 'guarded';
  if (hasForeignCredentials(user)) return 'foreign';
  return user.encrypted_password === null ? 'bare' : 'password';
}

/**
 * Applies the decision table to a locked user. Does not open a session or record audit entries and
 * notices.
 */
export async function applyFirstProof(db: Queryable, user: UserRow, proof: Proof): Promise<ProofOutcome> {
  const { now, provesCurrentAddress = true } = proof;
  const decided = decide(user, proof);
  const { password, identities, access, next } = decided;
  const removed: Array<ProofOutcome['removed'][number]> = [];
  if (password === 'remove' && user.encrypted_password !== null) {
    await updateUser(db, user.id, now, { encrypted_password: null, password_set_at: null });
    removed.push('password');
  }
  if (identities !== 'keep') {
    const spared = identities === 'keep proving' ? proof.identity : undefined;
    if (await removeIdentities(db, user, spared, now)) removed.push('identities');
  }
  if (access === 'void tokens') await voidAllTokens(db, user.id);
  if (access === 'end') {
    await updateUser(db, user.id, now, { email_change: '', email_change_confirm_status: 0 });
    await endOpenAccess(db, user.id, proof.flowId);
  }
  if (next === 'proven' && provesCurrentAddress) await markProven(db, user, now);
  if (proof.kind === 'disown') await recordDisowned(db, user, now);
  return { next, removed };
}

type Decision = {
  readonly password: 'keep' | 'remove';
  readonly identities: 'keep' | 'remove' | 'keep proving';
  readonly access: 'keep' | 'void tokens' | 'end';
  readonly next: ProofOutcome['next'];
};

function decide(user: UserRow, { kind, isKept = false, identity }: Proof): Decision {
  const state = proofState(user);
  if (state === 'proven') {
    const access = kind === 'own' || kind === 'mailbox' || kind === 'session' ? 'void tokens' : 'keep';
    return { password: 'keep', identities: 'keep', access, next: 'proven' };
  }
  const { password, identities, access, next } = TABLE[state][kind];
  const isNewIdentity = kind === 'provider' && !user.identities.some((known) => isSame(known, identity));
  return {
    password: password === 'ask' ? (isKept ? 'keep' : 'remove') : password,
    identities: identities === 'ask' ? (isKept ? 'keep' : 'remove') : identities,
    access: access === 'ask' ? (isKept ? 'void tokens' : 'end') : access,
    next: state === 'guarded' && isNewIdentity ? 'refused' : next,
  };
}

function isSame(identity: UserRow['identities'][number], key: IdentityKey | undefined): boolean {
  return identity.provider === key?.provider && identity.provider_id === key.subject;
}

/** Removes the provider identities except `spared`. Returns whether it removed any. */
async function removeIdentities(
  db: Queryable,
  user: UserRow,
  spared: IdentityKey | undefined,
  now: Date,
): Promise<boolean> {
  const removed = await db.query(sql`
    delete from auth.identities
    where user_id = ${user.id} and not (provider = 'email' and email is not distinct from ${user.email})
      and not (provider = ${spared?.provider ?? ''} and provider_id = ${spared?.subject ?? ''})
    returning 1`);
  if (user.email !== null) await insertEmailIdentity(db, { id: user.id, email: user.email }, {}, false, now);
  await syncProviders(db, user.id);
  return removed.length > 0;
}

/** Flags a guarded account for an administrator. Marks any other account as unconfirmed. */
async function recordDisowned(db: Queryable, user: UserRow, now: Date): Promise<void> {
  const state = proofState(user);
  if (state === 'proven') return;
  if (state === 'guarded') {
    await db.query(sql`update auth.users set flagged_at = ${now} where id = ${user.id}`);
  } else await updateUser(db, user.id, now, { email_confirmed_at: null });
}
