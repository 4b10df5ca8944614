// Mailed secrets: a link and a six-digit code, two independent secrets for the same thing. Only their hashes are kept;
// the code's is keyed, because a million unkeyed hashes could be tried in no time.
import { createHash, randomBytes, randomInt, timingSafeEqual } from 'node:crypto';
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
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
  /** Redeeming this proves the mailbox, but not that the same person made the account; see `email-ownership.ts`. */
  revokes: boolean;
  created_at: Date;
};

export type IssuedToken = {
  /** What a link carries; starts with `pkce_` when the flow ends in a code for the client that began it. */
  readonly token: string;
  readonly code: string;
};

const LIFETIME_MS = 3_600_000;
/** After this many wrong codes only the link still works. */
const MAX_ATTEMPTS = 5;

export type TokenOrder = {
  readonly userId: string;
  readonly kind: TokenKind;
  /** The address the secret goes to. */
  readonly email: string;
  readonly flowStateId?: string | undefined;
  readonly revokes: boolean;
  readonly now: Date;
};

/** A new secret replaces the user's earlier one of its kind. */
export async function issueOneTimeToken(
  auth: AuthContext,
  db: Queryable,
  order: TokenOrder,
): Promise<IssuedToken> {
  const { userId, kind, email, flowStateId, revokes, now } = order;
  const token = `${flowStateId === undefined ? '' : 'pkce_'}${randomBytes(28).toString('hex')}`;
  const code = String(randomInt(1_000_000)).padStart(6, '0');
  await db.query(sql`
    insert into auth.one_time_tokens
      (user_id, token_type, token_hash, code_hash, relates_to, flow_state_id, expels, created_at, updated_at, expires_at)
    values (${userId}, ${kind}, ${hashToken(token)}, ${hashCode(auth, kind, email, code)}, ${email}, ${flowStateId ?? null},
      ${revokes}, ${now}, ${now}, ${new Date(now.getTime() + LIFETIME_MS)})
    on conflict (user_id, token_type) do update set
      id = gen_random_uuid(), token_hash = excluded.token_hash, code_hash = excluded.code_hash,
      relates_to = excluded.relates_to, flow_state_id = excluded.flow_state_id, expels = excluded.expels, attempts = 0,
      created_at = excluded.created_at, updated_at = excluded.updated_at, expires_at = excluded.expires_at`);
  return { token, code };
}

/** The row of a link's token, locked: a second request waits and then finds it gone. */
export async function findByToken(
  db: Queryable,
  token: string,
  kinds: readonly TokenKind[],
  now: Date,
): Promise<OneTimeTokenRow | undefined> {
  const [row] = await db.query<OneTimeTokenRow>(sql`
    select id, user_id, token_type, code_hash, relates_to, flow_state_id, expels as revokes, created_at from auth.one_time_tokens
    where token_hash = ${hashToken(token)} and token_type = any(${kinds}::auth.one_time_token_type[]) and expires_at > ${now}
    for update`);
  return row;
}

/**
 * The row of a typed code. Every attempt is counted before it is checked, so that parallel attempts cannot exceed the
 * limit; the caller must commit even when this finds nothing. An unknown user takes the same time.
 */
export async function findByCode(
  auth: AuthContext,
  db: Queryable,
  attempt: Pick<TokenOrder, 'email' | 'now'> & {
    readonly userId: string | undefined;
    readonly kinds: readonly TokenKind[];
    readonly code: string;
  },
): Promise<OneTimeTokenRow | undefined> {
  const { kinds, email, code, now } = attempt;
  const userId = attempt.userId ?? '00000000-0000-0000-0000-000000000000';
  const rows = await db.query<OneTimeTokenRow>(sql`
    update auth.one_time_tokens set attempts = attempts + 1
    where user_id = ${userId} and token_type = any(${kinds}::auth.one_time_token_type[]) and relates_to = ${email}
      and expires_at > ${now} and attempts < ${MAX_ATTEMPTS}
    returning id, user_id, token_type, code_hash, relates_to, flow_state_id, expels as revokes, created_at`);
  let found: OneTimeTokenRow | undefined;
  for (const kind of kinds) {
    const row = rows.find((one) => one.token_type === kind);
    const presented = Buffer.from(hashCode(auth, kind, email, code));
    const stored = Buffer.from(row?.code_hash ?? hashCode(auth, kind, email, 'no code'));
    if (timingSafeEqual(presented, stored) && row) found ??= row;
  }
  return found;
}

/** Redeeming one secret voids all others of the user. */
export async function voidAllTokens(db: Queryable, userId: string): Promise<void> {
  await db.query(sql`delete from auth.one_time_tokens where user_id = ${userId}`);
}

export async function voidToken(db: Queryable, id: string): Promise<void> {
  await db.query(sql`delete from auth.one_time_tokens where id = ${id}`);
}

function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

function hashCode(auth: AuthContext, kind: TokenKind, email: string, code: string): string {
  return auth.codeMac(`${kind}\0${email}\0${code}`).toString('hex');
}
