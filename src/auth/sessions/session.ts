// Sessions: one row per sign-in with its authentication methods, and the token response for it.
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

/** How a session was opened. The `amr` claim of the token shows it. */
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
  /**
   * True if a proof of the address opened the session and the account has a verified factor, which must be
   * verified.
   */
  restricted: boolean;
  /** Lifetime of the longest access token that the session has ever had. */
  token_seconds: number;
  amr: Array<{ method: string; timestamp: number }>;
};

/** The request that signs in. `authUrl`, the URL that it was sent to, is the issuer of its tokens. */
export type Device = Origin & {
  readonly requestId?: string | undefined;
  readonly auth: AuthContext;
  readonly userAgent: string | undefined;
  readonly authUrl: string;
};

/** Maximum number of sessions per user. Beyond it the oldest session ends. */
const MAX_SESSIONS = 100;
const KEY_BYTES = 32;

type SessionAsColumns = { readonly [K in keyof SessionRow as `s_${K}`]: SessionRow[K] };

/** Reads the session and its user with one statement: the hot path of every refresh and every user route. */
export async function loadSessionAndUser(
  db: Queryable,
  ids: { readonly sessionId: string; readonly userId?: string | undefined },
): Promise<{ user: UserRow; session: SessionRow | undefined } | undefined> {
  // A user id lets the caller distinguish a missing session from a missing user.
  const source =
    ids.userId === undefined
      ? sql`auth.sessions s join auth.users u on u.id = s.user_id where s.id = ${ids.sessionId}`
      : sql`auth.users u left join auth.sessions s on s.id = ${ids.sessionId} and s.user_id = u.id
        where u.id = ${ids.userId}`;
  const name = ids.userId === undefined ? 'auth_session_by_id' : 'auth_session_by_user';
  const statement = sql`
    select ${USER_COLUMNS}, s.id as s_id, s.created_at as s_created_at,
      s.aal as s_aal, s.not_after as s_not_after, s.refreshed_at as s_refreshed_at,
      s.refresh_token_hmac_key as s_refresh_token_hmac_key,
      s.refresh_token_counter::float8 as s_refresh_token_counter,
      s.refresh_token_floor::float8 as s_refresh_token_floor,
      s.restricted as s_restricted, s.token_seconds as s_token_seconds,
      coalesce((
        select json_agg(json_build_object('method', a.authentication_method,
          'timestamp', floor(extract(epoch from a.updated_at))::int)
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
          restricted: row.s_restricted,
          token_seconds: row.s_token_seconds,
          amr: row.s_amr,
        };
  return { user: row, session };
}

export type SessionOpening = {
  readonly user: UserRow;
  readonly method: SignInMethod;
  /** The hash that the password was checked against. If it has changed, no session is opened. */
  readonly verifiedHash?: string | undefined;
  readonly isRestricted?: boolean | undefined;
};

/** A session with what its token response needs. The response is made after the transaction that opened the session. */
export type OpenedSession = {
  readonly user: UserRow;
  readonly session: SessionRow;
  /** Key of its refresh tokens. */
  readonly key: Buffer;
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
 * Opens a session. Returns undefined if the user has been banned, deleted or given another password since it
 * was read.
 * Guard and insert are one statement, which waits for a concurrent change of the user.
 */
export async function openSession(
  db: Queryable,
  request: Device,
  { user, method, verifiedHash, isRestricted = false }: SessionOpening,
): Promise<OpenedSession | undefined> {
  const { auth, now } = request;
  const id = randomUUID();
  const key = randomBytes(KEY_BYTES);
  const tokenSeconds = auth.settings().jwtExpirySeconds;
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
      insert into auth.sessions (id, user_id, created_at, updated_at, aal, user_agent, ip, restricted,
        refresh_token_hmac_key, token_seconds)
      select ${id}, signed_in.id, ${now}::timestamptz, ${now}::timestamptz, 'aal1', ${clipUserAgent(request)},
        ${request.client.address}::inet,
        ${isRestricted}::boolean, ${auth.boxes.sessionKey.seal(key, id)}::bytea, ${tokenSeconds}::integer
      from signed_in returning id
    ), amr as (
      insert into auth.mfa_amr_claims (session_id, authentication_method, created_at, updated_at)
      select session.id, ${method}, ${now}::timestamptz, ${now}::timestamptz from session
    ), exceeding as (
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
    restricted: isRestricted,
    token_seconds: tokenSeconds,
    amr: [{ method, timestamp: Math.floor(now.getTime() / 1000) }],
  };
  const signedIn: UserRow = { ...user, last_sign_in_at: now, updated_at: now };
  return { user: signedIn, session, key };
}

export type AccessClaims = {
  readonly user: Pick<
    UserRow,
    'id' | 'email' | 'phone' | 'raw_app_meta_data' | 'raw_user_meta_data' | 'is_anonymous'
  >;
  readonly aal: SessionRow['aal'];
  readonly amr: SessionRow['amr'];
  readonly isRestricted?: boolean | undefined;
  /** Undefined for a token without a session, which the user routes of `/auth/v1` reject. */
  readonly sessionId: string | undefined;
  readonly issuer: string;
  /** Unix seconds. */
  readonly issuedAt: number;
  readonly lifetimeSeconds: number;
};

type Claims = Readonly<Record<string, unknown>> & { readonly sub: string; readonly exp: number };

/** Returns the payload of an access token. */
export function accessClaims(input: AccessClaims): Claims {
  const { user, issuedAt } = input;
  return {
    iss: input.issuer,
    sub: user.id,
    aud: 'authenticated',
    exp: issuedAt + input.lifetimeSeconds,
    iat: issuedAt,
    email: user.email ?? '',
    phone: user.phone ?? '',
    app_metadata: user.raw_app_meta_data,
    user_metadata: user.raw_user_meta_data,
    role: user.is_anonymous ? 'anon' : 'authenticated',
    aal: input.aal,
    amr: input.amr,
    session_id: input.sessionId,
    ...(input.isRestricted && { restricted: true }),
    is_anonymous: user.is_anonymous,
  };
}

/**
 * Returns the token response for a session that was just opened or raised. Call it outside of a transaction, because a
 * hook may run. If the hook fails, the session ends: its client has no token of it.
 */
export async function issueTokens(
  request: Device,
  opened: OpenedSession,
  method = opened.session.amr[0]?.method ?? 'password',
): Promise<TokenResponse> {
  const { user, session } = opened;
  let claims: SignableClaims;
  try {
    claims = await tokenClaims(request, opened, method);
  } catch (error) {
    await endSessions(request.auth.db, user.id, { only: session.id });
    throw error;
  }
  return await signTokens(request, opened, claims);
}

type SignableClaims = Readonly<Record<string, unknown>> & { readonly exp: number };

/** Returns the claims of the next access token, after the hook for tokens. `method` is how the token is requested. */
export async function tokenClaims(
  request: Device,
  { user, session }: Pick<OpenedSession, 'user' | 'session'>,
  method: string,
): Promise<SignableClaims> {
  const { auth, now, authUrl } = request;
  const claims = accessClaims({
    user,
    aal: session.aal,
    amr: session.amr,
    sessionId: session.id,
    isRestricted: session.restricted,
    issuer: authUrl,
    issuedAt: Math.floor(now.getTime() / 1000),
    lifetimeSeconds: auth.settings().jwtExpirySeconds,
  });
  return await auth.hooks.customizeToken(request, claims, method);
}

/** Signs the claims and returns the token response for the current state of a session. */
export async function signTokens(
  { auth, now }: Device,
  { user, session, key }: OpenedSession,
  claims: SignableClaims,
): Promise<TokenResponse> {
  const lifetime = claims.exp - Math.floor(now.getTime() / 1000);
  if (lifetime > session.token_seconds) await recordLifetime(auth.db, session.id, lifetime);
  return {
    access_token: await signToken(claims, auth.signingKeys.signing),
    token_type: 'bearer',
    expires_in: lifetime,
    expires_at: claims.exp,
    refresh_token: makeRefreshToken(session.id, session.refresh_token_counter, key),
    user: toUserJson(user),
  };
}

/**
 * Records a longer lifetime of access tokens, so that the end of the session refuses them for as long. A lifetime never
 * shrinks: an earlier token may still exist.
 */
async function recordLifetime(db: Queryable, sessionId: string, seconds: number): Promise<void> {
  const [session] = await db.query(sql`
    update auth.sessions set token_seconds = greatest(token_seconds, ${seconds}) where id = ${sessionId} returning id`);
  if (!session) throw problems.sessionNotFound();
}

/** Returns the key of the session's refresh tokens, or undefined if its keyring no longer exists. */
export function openSessionKey(auth: AuthContext, session: SessionRow): Buffer | undefined {
  const sealed = session.refresh_token_hmac_key;
  return sealed ? auth.boxes.sessionKey.open(sealed, session.id) : undefined;
}

/** Reads the user again and opens a session. Most sign-ins end here. */
export async function signIn(
  db: Queryable,
  request: Device,
  userId: string,
  opening: Pick<SessionOpening, 'method' | 'isRestricted'>,
): Promise<OpenedSession | Problem> {
  const user = await readUser(db, userId);
  return (await openSession(db, request, { ...opening, user })) ?? problems.userBanned(403);
}

export type SessionSelection = 'all' | { readonly allBut: string } | { readonly only: string };

export async function endSessions(db: Queryable, userId: string, selection: SessionSelection): Promise<void> {
  const condition =
    selection === 'all'
      ? raw('true')
      : 'only' in selection
        ? sql`id = ${selection.only}`
        : sql`id <> ${selection.allBut}`;
  await db.query(sql`delete from auth.sessions where user_id = ${userId} and ${condition}`);
  await announceSessionEnds(db);
}

export async function endRestrictedSessions(db: Queryable, userId: string): Promise<void> {
  const ended = await db.query(
    sql`delete from auth.sessions where user_id = ${userId} and restricted returning 1`,
  );
  if (ended.length > 0) await announceSessionEnds(db);
}

/**
 * Returns whether a session can no longer be refreshed: it reached its end, or was not refreshed for too
 * long.
 */
export function isExpired(session: SessionRow, now: Date, refreshExpirySeconds: number): boolean {
  if (session.not_after && session.not_after <= now) return true;
  const last = session.refreshed_at ?? session.created_at;
  return now.getTime() > last.getTime() + refreshExpirySeconds * 1000;
}

export function clipUserAgent({ userAgent }: Device): string | null {
  return userAgent?.slice(0, 512) ?? null;
}
