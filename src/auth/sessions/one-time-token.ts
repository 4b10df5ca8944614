// Mailed secrets: a link and a six-digit code, two independent secrets with the same effect. Only their
// hashes are stored.
// The hash of the code is keyed, because a million unkeyed hashes could be tried instantly.
import { createHash, randomBytes, randomInt, timingSafeEqual } from 'node:crypto';
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql, type Sql } from '../../postgres/sql.ts';
import type { AuthContext } from '../auth-context.ts';

export type TokenKind =
  | 'confirmation_token'
  | 'recovery_token'
  | 'email_change_token_new'
  | 'email_change_token_current'
  | 'reauthentication_token';

export type OneTimeTokenRow = {
  id: string;
  user_id: string;
  token_type: TokenKind;
  code_hash: string;
  relates_to: string;
  flow_state_id: string | null;
  /**
   * True if redeeming this proves the mailbox, but not that the same person created the account; see
   * `first-proof.ts`.
   */
  revokes: boolean;
  created_at: Date;
};

export type IssuedToken = {
  /** The token in a link. It starts with `pkce_` if the flow ends in a code for the client that began it. */
  readonly token: string;
  readonly code: string;
};

export const LIFETIME_MS = 3_600_000;
// After this many wrong codes only the link works. A stranger can use up only the share of other networks.
const MAX_ATTEMPTS = 5;
const MAX_ATTEMPTS_ELSEWHERE = 2;
const MAX_ATTEMPTS_OF_REQUESTER = MAX_ATTEMPTS - MAX_ATTEMPTS_ELSEWHERE;

export type TokenOrder = {
  readonly userId: string;
  readonly kind: TokenKind;
  /** The address that receives the secret. */
  readonly email: string;
  readonly flowStateId?: string | undefined;
  readonly revokes: boolean;
  /** Hash of the network that requested the secret. Undefined for secrets that an administrator requested. */
  readonly requester?: string | undefined;
  readonly now: Date;
  /** Lifetime of the link. The code is valid for at most `LIFETIME_MS`. */
  readonly linkLifetimeMs?: number | undefined;
};

/**
 * Issues a secret. It replaces the user's earlier secret of its kind from the same network. A secret from
 * another network
 * stays valid, so that a stranger's request does not void the owner's mail, but only with the same address
 * and the same
 * effect on unproven credentials. A third network replaces the older of the two.
 */
export async function issueOneTimeToken(
  auth: AuthContext,
  db: Queryable,
  order: TokenOrder,
): Promise<IssuedToken> {
  const { userId, kind, email, flowStateId, revokes, now, linkLifetimeMs = LIFETIME_MS } = order;
  const token = `${flowStateId === undefined ? '' : 'pkce_'}${randomBytes(28).toString('hex')}`;
  const code = String(randomInt(1_000_000)).padStart(6, '0');
  const requester = order.requester ?? null;
  await db.query(sql`
    delete from auth.one_time_tokens
    where user_id = ${userId} and token_type = ${kind}
      and (relates_to <> ${email} or expels <> ${revokes} or expires_at <= ${now})`);
  await db.query(sql`
    insert into auth.one_time_tokens
      (user_id, token_type, token_hash, code_hash, relates_to, flow_state_id, expels, requester, created_at, updated_at,
        expires_at, code_expires_at, slot)
    values (${userId}, ${kind}, ${hashToken(token)}, ${hashCode(auth, kind, email, code)}, ${email},
      ${flowStateId ?? null},
      ${revokes}, ${requester}, ${now}, ${now}, ${new Date(now.getTime() + linkLifetimeMs)},
      ${new Date(now.getTime() + LIFETIME_MS)}, ${slotFor(userId, kind, requester)})
    on conflict (user_id, token_type, slot) do update set
      id = gen_random_uuid(), token_hash = excluded.token_hash, code_hash = excluded.code_hash,
      relates_to = excluded.relates_to, flow_state_id = excluded.flow_state_id, expels = excluded.expels, attempts = 0,
      requester = excluded.requester, attempts_elsewhere = 0, created_at = excluded.created_at,
      updated_at = excluded.updated_at, expires_at = excluded.expires_at, code_expires_at = excluded.code_expires_at`);
  return { token, code };
}

/** Returns the slot of this network, else a free slot, else the slot with the older secret. */
function slotFor(userId: string, kind: TokenKind, requester: string | null): Sql {
  const own = sql`from auth.one_time_tokens t where t.user_id = ${userId} and t.token_type = ${kind}`;
  return sql`coalesce(
    (select t.slot ${own} and t.requester is not distinct from ${requester} limit 1),
    (select s.slot from (values (0), (1)) s (slot) where not exists (select 1 ${own} and t.slot = s.slot)
      order by s.slot limit 1),
    (select t.slot ${own} order by t.created_at, t.slot limit 1))`;
}

/** Returns the user of a link's token, without a lock. */
export async function findOwner(db: Queryable, token: string): Promise<string | undefined> {
  const [row] = await db.query<{ user_id: string }>(
    sql`select user_id from auth.one_time_tokens where token_hash = ${hashToken(token)}`,
  );
  return row?.user_id;
}

/** Returns the row of a link of any kind, without a lock. */
export async function findLink(
  db: Queryable,
  token: string,
  now: Date,
): Promise<OneTimeTokenRow | undefined> {
  const [row] = await db.query<OneTimeTokenRow>(sql`
    select id, user_id, token_type, code_hash, relates_to, flow_state_id, expels as revokes, created_at
    from auth.one_time_tokens where token_hash = ${hashToken(token)} and expires_at > ${now}`);
  return row;
}

/** Returns true for the confirmation mail of the sign-up that set the password, see `first-proof.ts`. */
export function isOwnConfirmation({ token_type, revokes }: OneTimeTokenRow): boolean {
  return token_type === 'confirmation_token' && !revokes;
}

/** Returns and locks the row of a link's token. A second request waits and then does not find it. */
export async function findByToken(
  db: Queryable,
  token: string,
  kinds: readonly TokenKind[],
  now: Date,
): Promise<OneTimeTokenRow | undefined> {
  const [row] = await db.query<OneTimeTokenRow>(sql`
    select id, user_id, token_type, code_hash, relates_to, flow_state_id, expels as revokes, created_at
      from auth.one_time_tokens
    where token_hash = ${hashToken(token)} and token_type = any(${kinds}::auth.one_time_token_type[])
      and expires_at > ${now}
    for update`);
  return row;
}

/**
 * Returns the row of a typed code. Every attempt is counted before the check, so that parallel attempts
 * cannot exceed the
 * limit; the caller must commit even if nothing is found. An unknown user takes the same time. `network` is
 * the hash of
 * the network that sent the code. With `onlyRequester`, only the requesting network can find the row.
 */
export async function findByCode(
  auth: AuthContext,
  db: Queryable,
  attempt: Pick<TokenOrder, 'now'> & {
    /** Stored forms of the typed address. */
    readonly emails: readonly string[];
    readonly userId: string | undefined;
    readonly kinds: readonly TokenKind[];
    readonly code: string;
    readonly network: string;
    readonly onlyRequester: boolean;
  },
): Promise<OneTimeTokenRow | undefined> {
  const { kinds, emails, code, now, network, onlyRequester } = attempt;
  const userId = attempt.userId ?? '00000000-0000-0000-0000-000000000000';
  const rows = await db.query<OneTimeTokenRow>(sql`
    update auth.one_time_tokens set
      attempts = attempts + (requester is null or requester = ${network})::int,
      attempts_elsewhere = attempts_elsewhere + (requester is not null and requester <> ${network})::int
    where user_id = ${userId} and token_type = any(${kinds}::auth.one_time_token_type[])
      and relates_to = any(${emails}::text[])
      and least(expires_at, code_expires_at) > ${now} and case
        when requester is null then attempts < ${MAX_ATTEMPTS}
        when requester = ${network} then attempts < ${MAX_ATTEMPTS_OF_REQUESTER}
        else attempts_elsewhere < ${MAX_ATTEMPTS_ELSEWHERE} and not ${onlyRequester}::boolean end
    returning id, user_id, token_type, code_hash, relates_to, flow_state_id, expels as revokes, created_at`);
  let found: OneTimeTokenRow | undefined;
  for (const kind of kinds) {
    const ofKind = rows.filter((row) => row.token_type === kind);
    for (const row of ofKind.length > 0 ? ofKind : [undefined]) {
      const email = row?.relates_to ?? emails[0] ?? '';
      const presented = Buffer.from(hashCode(auth, kind, email, code));
      const stored = Buffer.from(row?.code_hash ?? hashCode(auth, kind, email, 'no code'));
      if (timingSafeEqual(presented, stored) && row) found ??= row;
    }
  }
  return found;
}

/** Voids all secrets of the user, after one of them was redeemed. */
export async function voidAllTokens(db: Queryable, userId: string): Promise<void> {
  await db.query(sql`delete from auth.one_time_tokens where user_id = ${userId}`);
}

/** Voids this secret and the secret of the same kind that another network requested. */
export async function voidToken(db: Queryable, { user_id, token_type }: OneTimeTokenRow): Promise<void> {
  await db.query(
    sql`delete from auth.one_time_tokens where user_id = ${user_id} and token_type = ${token_type}`,
  );
}

function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

function hashCode(auth: AuthContext, kind: TokenKind, email: string, code: string): string {
  return auth.codeMac(`${kind}\0${email}\0${code}`).toString('hex');
}
