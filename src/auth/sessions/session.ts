// Sessions: one row per sign-in, with its authentication methods; and the token response made from it.
import { randomBytes, randomUUID } from 'node:crypto';
import type { Problem } from '../../problem/problem.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { raw, sql } from '../../postgres/sql.ts';
import { announceSessionEnds } from '../../identity/session-ends.ts';
import { signToken } from '../../identity/token.ts';
import type { AuthContext } from '../auth-context.ts';
import { auditInsert, type Origin } from '../audit.ts';
import { problems } from '../problem.ts';
import { makeRefreshToken } from './refresh-token.ts';
import { readUser, toUserJson, USER_COLUMNS, type UserRow } from '../users/user.ts';

/** How a session came to be; what `amr` in the token shows. */
export type SignInMethod =
  | 'password'
  | 'otp'
  | 'oauth'
  | 'totp'
  | 'recovery'
  | 'invite'
  | 'magiclink'
  | 'email/signup'
  | 'email_change'
  | 'anonymous';

export type SessionRow = {
  id: string;
  created_at: Date;
  aal: 'aal1' | 'aal2' | 'aal3';
  not_after: Date | null;
  refreshed_at: Date | null;
  refresh_token_hmac_key: Buffer | null;
  refresh_token_counter: number;
  refresh_token_floor: number;
  amr: Array<{ method: string; timestamp: number }>;
};

/** The request that signs in. `authUrl`, the address it came to, is the issuer of its tokens. */
export type Device = Origin & {
  readonly auth: AuthContext;
  readonly userAgent: string | undefined;
  readonly authUrl: string;
};

/** Beyond this many sessions of a user, the oldest ends. */
const MAX_SESSIONS = 100;
const KEY_BYTES = 32;

type SessionAsColumns = { readonly [K in keyof SessionRow as `s_${K}`]: SessionRow[K] };

/** The session and its user in one read: the hot path of every refresh and every user route. */
export async function loadSessionAndUser(
  db: Queryable,
  ids: { readonly sessionId: string; readonly userId?: string | undefined },
): Promise<{ user: UserRow; session: SessionRow | undefined } | undefined> {
  // With a user id, a missing session can be told apart from a missing user.
  const source =
    ids.userId === undefined
      ? sql`auth.sessions s join auth.users u on u.id = s.user_id where s.id = ${ids.sessionId}`
      : sql`auth.users u left join auth.sessions s on s.id = ${ids.sessionId} and s.user_id = u.id where u.id = ${ids.userId}`;
  const name = ids.userId === undefined ? 'auth_session_by_id' : 'auth_session_by_user';
  const statement = sql`
    select ${USER_COLUMNS}, s.id as s_id, s.created_at as s_created_at,
      s.aal as s_aal, s.not_after as s_not_after, s.refreshed_at as s_refreshed_at,
      s.refresh_token_hmac_key as s_refresh_token_hmac_key,
      s.refresh_token_counter::float8 as s_refresh_token_counter, s.refresh_token_floor::float8 as s_refresh_token_floor,
      coalesce((
        select json_agg(json_build_object('method', a.authentication_method, 'timestamp', floor(extract(epoch from a.updated_at))::int)
          order by a.updated_at desc, a.authentication_method)
        from auth.mfa_amr_claims a where a.session_id = s.id), '[]') as s_amr
    from ${source}`;
  const [row] = await db.query<UserRow & SessionAsColumns>(statement, name);
  if (!row) return undefined;
  const session: SessionRow | undefined =
    row.s_id === null
      ? undefined
      : {
          id: row.s_id,
          created_at: row.s_created_at,
          aal: row.s_aal,
          not_after: row.s_not_after,
          refreshed_at: row.s_refreshed_at,
          refresh_token_hmac_key: row.s_refresh_token_hmac_key,
          refresh_token_counter: row.s_refresh_token_counter,
          refresh_token_floor: row.s_refresh_token_floor,
          amr: row.s_amr,
        };
  return { user: row, session };
}

export type SessionOpening = {
  readonly user: UserRow;
  readonly method: SignInMethod;
  /** The hash the password was checked against: if it changed meanwhile, no session is opened. */
  readonly verifiedHash?: string | undefined;
};

export type TokenResponse = {
  readonly access_token: string;
  readonly token_type: 'bearer';
  readonly expires_in: number;
  readonly expires_at: number;
  readonly refresh_token: string;
  readonly user: Readonly<Record<string, unknown>>;
};

/**
 * Opens a session; undefined when the user has been banned, deleted or given another password since it was read. Guard
 * and insert are one statement, which waits for such a change when it is in progress.
 */
export async function openSession(
  db: Queryable,
  request: Device,
  { user, method, verifiedHash }: SessionOpening,
): Promise<TokenResponse | undefined> {
  const { auth, now } = request;
  const id = randomUUID();
  const key = randomBytes(KEY_BYTES);
  const guard =
    verifiedHash === undefined ? raw('true') : sql`u.encrypted_password is not distinct from ${verifiedHash}`;
  const provider = method === 'password' || method === 'otp' ? 'email' : method;
  const audit = auditInsert(request, 'login', user, { provider }, raw('exists (select from session)'));
  const statement = sql`
    with signed_in as (
      update auth.users u set last_sign_in_at = ${now}, updated_at = ${now}
      where u.id = ${user.id} and u.deleted_at is null
        and (u.banned_until is null or u.banned_until <= ${now}) and ${guard}
      returning u.id
    ), session as (
      insert into auth.sessions (id, user_id, created_at, updated_at, aal, user_agent, ip, refresh_token_hmac_key)
      select ${id}, signed_in.id, ${now}::timestamptz, ${now}::timestamptz, 'aal1', ${clipUserAgent(request)}, ${request.client.address}::inet,
        ${auth.boxes.sessionKey.seal(key, id)}::bytea
      from signed_in returning id
    ), amr as (
      insert into auth.mfa_amr_claims (session_id, authentication_method, created_at, updated_at)
      select session.id, ${method}, ${now}::timestamptz, ${now}::timestamptz from session
    ), crowded as (
      delete from auth.sessions where id in (
        select s.id from auth.sessions s where s.user_id = ${user.id}
        order by s.created_at desc offset ${MAX_SESSIONS - 1})
    ), audited as (${audit})
    select id from session`;
  const [opened] = await db.query(
    statement,
    verifiedHash === undefined ? 'auth_open_session' : 'auth_open_by_password',
  );
  if (!opened) return undefined;
  const session: SessionRow = {
    id,
    created_at: now,
    aal: 'aal1',
    not_after: null,
    refreshed_at: null,
    refresh_token_hmac_key: null,
    refresh_token_counter: 0,
    refresh_token_floor: 0,
    amr: [{ method, timestamp: Math.floor(now.getTime() / 1000) }],
  };
  const signedIn: UserRow = { ...user, last_sign_in_at: now, updated_at: now };
  return await issueTokens(request, { user: signedIn, session, key });
}

export type AccessClaims = {
  readonly user: Pick<
    UserRow,
    'id' | 'email' | 'phone' | 'raw_app_meta_data' | 'raw_user_meta_data' | 'is_anonymous'
  >;
  readonly aal: SessionRow['aal'];
  readonly amr: SessionRow['amr'];
  /** Undefined for a token without a session, which the user routes of `/auth/v1` refuse. */
  readonly sessionId: string | undefined;
  readonly issuer: string;
  /** Unix seconds. */
  readonly issuedAt: number;
  readonly lifetimeSeconds: number;
};

/** The payload of an access token. */
export function accessClaims(of: AccessClaims): Readonly<Record<string, unknown>> {
  const { user, issuedAt } = of;
  return {
    iss: of.issuer,
    sub: user.id,
    aud: 'authenticated',
    exp: issuedAt + of.lifetimeSeconds,
    iat: issuedAt,
    email: user.email ?? '',
    phone: user.phone ?? '',
    app_metadata: user.raw_app_meta_data,
    user_metadata: user.raw_user_meta_data,
    role: user.is_anonymous ? 'anon' : 'authenticated',
    aal: of.aal,
    amr: of.amr,
    session_id: of.sessionId,
    is_anonymous: user.is_anonymous,
  };
}

/** The token response for a session in its current state. */
export async function issueTokens(
  { auth, now, authUrl }: Device,
  { user, session, key }: { readonly user: UserRow; readonly session: SessionRow; readonly key: Buffer },
): Promise<TokenResponse> {
  const lifetime = auth.settings().jwtExpirySeconds;
  const issuedAt = Math.floor(now.getTime() / 1000);
  const claims = accessClaims({
    user,
    aal: session.aal,
    amr: session.amr,
    sessionId: session.id,
    issuer: authUrl,
    issuedAt,
    lifetimeSeconds: lifetime,
  });
  return {
    access_token: await signToken(claims, auth.signingKeys.signing),
    token_type: 'bearer',
    expires_in: lifetime,
    expires_at: issuedAt + lifetime,
    refresh_token: makeRefreshToken(session.id, session.refresh_token_counter, key),
    user: toUserJson(user),
  };
}

/** The key of the session's refresh tokens; undefined when it was sealed with a keyring that is gone. */
export function openSessionKey(auth: AuthContext, session: SessionRow): Buffer | undefined {
  const sealed = session.refresh_token_hmac_key;
  return sealed ? auth.boxes.sessionKey.open(sealed, session.id) : undefined;
}

/** Reads the user again and opens a session: the end of most sign-ins. */
export async function signIn(
  db: Queryable,
  request: Device,
  userId: string,
  method: SignInMethod,
): Promise<TokenResponse | Problem> {
  const user = await readUser(db, userId);
  return (await openSession(db, request, { user, method })) ?? problems.userBanned(403);
}

export type SessionSelection = 'all' | { readonly allBut: string } | { readonly only: string };

export async function endSessions(db: Queryable, userId: string, which: SessionSelection): Promise<void> {
  const condition =
    which === 'all' ? raw('true') : 'only' in which ? sql`id = ${which.only}` : sql`id <> ${which.allBut}`;
  await db.query(sql`delete from auth.sessions where user_id = ${userId} and ${condition}`);
  await announceSessionEnds(db);
}

/** Whether a session can no longer be refreshed: it reached its end, or was not refreshed for too long. */
export function isExpired(session: SessionRow, now: Date, refreshExpirySeconds: number): boolean {
  if (session.not_after && session.not_after <= now) return true;
  const last = session.refreshed_at ?? session.created_at;
  return now.getTime() > last.getTime() + refreshExpirySeconds * 1000;
}

export function clipUserAgent({ userAgent }: Device): string | null {
  return userAgent?.slice(0, 512) ?? null;
}
