// grant_type=refresh_token. One read, one compare-and-set: whoever raises the counter rotates, everybody else who
// came with the same token is answered with the token the winner got. No lock is held across statements.
import { sql } from '../../../postgres/sql.ts';
import type { AuthContext } from '../../auth-context.ts';
import { auditInsert, recordAudit } from '../../audit.ts';
import {
  conflict,
  refreshTokenAlreadyUsed,
  refreshTokenNotFound,
  sessionExpired,
  userBanned,
  validationFailed,
} from '../../problem.ts';
import { BUCKETS } from '../../rate-limit.ts';
import {
  isSignedBy,
  judgeRefresh,
  parseRefreshToken,
  type RefreshToken,
} from '../../sessions/refresh-token.ts';
import { json, type Answer, type AuthRequest } from '../../http/request.ts';
import {
  isExpired,
  issueTokens,
  loadSessionAndUser,
  openSessionKey,
  type SessionRow,
} from '../../sessions/session.ts';
import { isBanned, type UserRow } from '../../users/user.ts';

const REUSE_INTERVAL_MS = 10_000;
/** Rounds of "somebody was faster": one is usual, more than these is a storm on one session. */
const MAX_ROUNDS = 20;

export async function tokenByRefresh(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  const parsed = parseRefreshToken(request.body.text('refresh_token') ?? '');
  if (parsed.kind === 'malformed') throw validationFailed('Invalid Refresh Token: Not Valid');
  // The address has a wide limit, because a whole office or a server that renders pages shares one, and a 429 here can
  // sign people out.
  await auth.limiter.byAddress(BUCKETS.refreshAddress, request);
  if (parsed.kind === 'legacy') throw refreshTokenNotFound();
  const { token } = parsed;
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const answer = await refreshOnce(auth, request, token, round === 0);
    if (answer) return answer;
  }
  throw conflict('Too many concurrent token refresh requests on the same session or refresh token');
}

/** Undefined when the session changed between the read and the write: look again. */
async function refreshOnce(
  auth: AuthContext,
  request: AuthRequest,
  token: RefreshToken,
  isFirst: boolean,
): Promise<Answer | undefined> {
  const { now, settings } = request;
  const found = await loadSessionAndUser(auth.db, { sessionId: token.sessionId });
  const session = found?.session;
  const key = session ? openSessionKey(auth, session) : undefined;
  if (!found || !session || !key || !isSignedBy(token, key)) throw refreshTokenNotFound();
  // Only now: whoever merely knows a session's id must not use up what its owner may do.
  if (isFirst) await auth.limiter.byKey(BUCKETS.refreshSession, session.id, request);
  const { user } = found;
  if (user.deleted_at) throw refreshTokenNotFound();
  if (isBanned(user, now)) throw userBanned(400);
  if (isExpired(session, now, settings.refreshExpirySeconds)) throw sessionExpired();

  const sinceLast = session.refreshed_at ? now.getTime() - session.refreshed_at.getTime() : Infinity;
  const stored = { counter: session.refresh_token_counter, floor: session.refresh_token_floor };
  const answer = async (counter: number): Promise<Answer> => {
    const current = { ...session, refresh_token_counter: counter };
    return json(await issueTokens(auth, { user, session: current, key, issuer: request.authUrl, now }));
  };
  switch (judgeRefresh(token.counter, stored, sinceLast, { reuseIntervalMs: REUSE_INTERVAL_MS })) {
    case 'rotate':
      return (await rotate(auth, request, session, user)) ? await answer(stored.counter + 1) : undefined;
    case 'repeat':
      return await answer(stored.counter);
    case 'below-floor':
      throw refreshTokenAlreadyUsed();
    case 'foreign':
      throw validationFailed('Invalid Refresh Token: Not Valid');
    case 'reuse':
      if (!(await endReused(auth, request, session, user))) return undefined;
      throw refreshTokenAlreadyUsed();
  }
}

/** True when this request was the one to raise the counter. A statement that waits for another re-checks all of it. */
async function rotate(
  auth: AuthContext,
  request: AuthRequest,
  session: SessionRow,
  user: UserRow,
): Promise<boolean> {
  const { now } = request;
  const audit = auditInsert(
    { action: 'token_refreshed', actor: user, ip: request.ip, now },
    sql`exists (select from rotated)`,
  );
  const statement = sql`
    with rotated as (
      update auth.sessions s set refresh_token_counter = s.refresh_token_counter + 1, refreshed_at = ${now},
        updated_at = ${now}, user_agent = coalesce(${request.userAgent?.slice(0, 512) ?? null}, s.user_agent), ip = ${request.ip}
      where s.id = ${session.id} and s.refresh_token_counter = ${session.refresh_token_counter} and s.aal = ${session.aal}
      returning s.id
    ), audited as (${audit})
    select id from rotated`;
  const [rotated] = await auth.db.query(statement, 'auth_rotate');
  return rotated !== undefined;
}

/** A token spent long ago came back: the session ends, unless it was refreshed since it was judged. */
async function endReused(
  auth: AuthContext,
  request: AuthRequest,
  session: SessionRow,
  user: UserRow,
): Promise<boolean> {
  const [ended] = await auth.db.query(sql`
    delete from auth.sessions where id = ${session.id} and refresh_token_counter = ${session.refresh_token_counter}
    returning id`);
  if (!ended) return false;
  auth.log.warn(
    { session: session.id, user: user.id },
    'a spent refresh token was used again; its session ended',
  );
  await recordAudit(auth.db, {
    action: 'refresh_reuse_detected',
    actor: user,
    ip: request.ip,
    now: request.now,
    traits: { session_id: session.id },
  });
  return true;
}
