// grant_type=refresh_token. One read and one compare-and-set: the request that raises the counter rotates the
// token.
// All other requests with the same token get the new one too. No lock is held across statements.
import { sql } from '../../../postgres/sql.ts';
import type { SignedIn } from '../../access.ts';
import { auditInsert, recordAudit } from '../../audit.ts';
import { problems } from '../../problem.ts';
import { BUCKETS } from '../../rate-limit.ts';
import { findImportedToken, IMPORTED_COUNTER } from '../../sessions/imported-token.ts';
import {
  isSignedBy,
  judgeRefresh,
  parseRefreshToken,
  type RefreshToken,
} from '../../sessions/refresh-token.ts';
import { json, type Answer, type AuthRequest } from '../../http/request.ts';
import {
  clipUserAgent,
  isExpired,
  loadSessionAndUser,
  openSessionKey,
  signTokens,
  tokenClaims,
} from '../../sessions/session.ts';
import { isBanned } from '../../users/user.ts';

const REUSE_INTERVAL_MS = 10_000;
/** Maximum number of lost races per request; one is usual. */
const MAX_ROUNDS = 20;

export async function tokenByRefresh(request: AuthRequest): Promise<Answer> {
  const parsed = parseRefreshToken(request.body.text('refresh_token') ?? '');
  if (parsed.kind === 'malformed') throw problems.validationFailed('Invalid Refresh Token: Not Valid');
  // The limit per address is generous. An office or a server that renders pages shares one address, and a 429 here can
  // sign people out.
  await request.auth.limiter.byAddress(BUCKETS.refreshAddress, request);
  const token = parsed.kind === 'opaque' ? await importedToken(request, parsed.text) : ownToken(parsed.token);
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const answer = await refreshOnce(request, token, round === 0);
    if (answer) return answer;
  }
  throw problems.conflict('Too many concurrent token refresh requests on the same session or refresh token');
}

type Presented = {
  readonly sessionId: string;
  readonly counter: number;
  /** Amount by which this token raises the counter. */
  readonly step: number;
  readonly isGenuine: (key: Buffer) => boolean;
};

const ownToken = (token: RefreshToken): Presented => ({
  sessionId: token.sessionId,
  counter: token.counter,
  step: 1,
  isGenuine: (key) => isSignedBy(token, key),
});

/**
 * Looks up an imported token. It raises the counter by two: our own token that trails by one is accepted
 * at any time.
 */
async function importedToken({ auth }: AuthRequest, text: string): Promise<Presented> {
  const sessionId = await findImportedToken(auth.db, text);
  if (sessionId === undefined) throw problems.refreshTokenNotFound();
  return { sessionId, counter: IMPORTED_COUNTER, step: 2, isGenuine: () => true };
}

/** Returns undefined if the session changed between read and write. The caller retries. */
async function refreshOnce(
  request: AuthRequest,
  token: Presented,
  isFirst: boolean,
): Promise<Answer | undefined> {
  const { auth, now, settings } = request;
  const found = await loadSessionAndUser(auth.db, { sessionId: token.sessionId });
  const session = found?.session;
  const key = session ? openSessionKey(auth, session) : undefined;
  if (!found || !session || !key || !token.isGenuine(key)) throw problems.refreshTokenNotFound();
  // Checked after the signature: knowing a session id must not be enough to use up its limit.
  if (isFirst) await auth.limiter.byKey(BUCKETS.refreshSession, session.id, request);
  const { user } = found;
  if (user.deleted_at) throw problems.refreshTokenNotFound();
  if (isBanned(user, now)) throw problems.userBanned(400);
  if (isExpired(session, now, settings.refreshTokenExpirySeconds)) throw problems.sessionExpired();

  const sinceLast = session.refreshed_at ? now.getTime() - session.refreshed_at.getTime() : Infinity;
  const stored = { counter: session.refresh_token_counter, floor: session.refresh_token_floor };
  const readClaims = () => tokenClaims(request, { user, session }, 'token_refresh');
  const answer = async (counter: number, claims: Awaited<ReturnType<typeof readClaims>>): Promise<Answer> => {
    const current = { ...session, refresh_token_counter: counter };
    return json(await signTokens(request, { user, session: current, key }, claims));
  };
  switch (judgeRefresh(token.counter, stored, sinceLast, { reuseIntervalMs: REUSE_INTERVAL_MS })) {
    case 'rotate': {
      // Before the rotation: if the hook fails, the client can use its refresh token again.
      const claims = await readClaims();
      return (await rotate(request, { session, user }, token.step))
        ? await answer(stored.counter + token.step, claims)
        : undefined;
    }
    case 'repeat':
      return await answer(stored.counter, await readClaims());
    case 'below-floor':
      throw problems.refreshTokenAlreadyUsed();
    case 'foreign':
      throw problems.validationFailed('Invalid Refresh Token: Not Valid');
    case 'reuse':
      if (!(await endReused(request, { session, user }))) return undefined;
      throw problems.refreshTokenAlreadyUsed();
  }
}

/**
 * Returns true if this request raised the counter. A statement that waited for another one re-checks its
 * conditions.
 */
async function rotate(request: AuthRequest, { session, user }: SignedIn, step: number): Promise<boolean> {
  const { auth, now } = request;
  const audit = auditInsert(request, 'token_refreshed', user, undefined, sql`exists (select from rotated)`);
  const statement = sql`
    with rotated as (
      update auth.sessions s set refresh_token_counter = s.refresh_token_counter + ${step}, refreshed_at = ${now},
        updated_at = ${now}, user_agent = coalesce(${clipUserAgent(request)}, s.user_agent),
          ip = ${request.client.address}
      where s.id = ${session.id} and s.refresh_token_counter = ${session.refresh_token_counter}
        and s.aal = ${session.aal}
      returning s.id
    ), audited as (${audit})
    select id from rotated`;
  const [rotated] = await auth.db.query(statement, 'auth_rotate');
  return rotated !== undefined;
}

/** Ends the session because an old token was reused, unless the session was refreshed since it was read. */
async function endReused(request: AuthRequest, { session, user }: SignedIn): Promise<boolean> {
  const { auth } = request;
  const [ended] = await auth.db.query(sql`
    delete from auth.sessions where id = ${session.id} and refresh_token_counter = ${session.refresh_token_counter}
    returning id`);
  if (!ended) return false;
  auth.log.warn(
    { session: session.id, user: user.id },
    'a used refresh token was presented again; its session was ended',
  );
  await recordAudit(auth.db, request, 'refresh_reuse_detected', user, { session_id: session.id });
  return true;
}
