// /factors: enrolls, challenges, verifies and removes a second factor. Only TOTP is supported.
import { randomUUID } from 'node:crypto';
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { proveAddress } from '../accounts/prove-address.ts';
import { recordAudit } from '../audit.ts';
import {
  CHALLENGE_LIFETIME_MS,
  displayTotp,
  dropFactor,
  matchTotp,
  MAX_FACTORS,
  newTotpSecret,
  openTotpSecret,
  spendStep,
} from '../users/factor.ts';
import { isUuid, parsePathUuid } from '../fields.ts';
import { signedInIds, lockSignedIn, type UserRequest } from '../access.ts';
import { queueNotice } from '../mail/notice.ts';
import { problems } from '../problem.ts';
import { BUCKETS } from '../rate-limit.ts';
import { json, type Answer } from '../http/request.ts';
import { issueTokens, loadSessionAndUser, openSessionKey } from '../sessions/session.ts';
import { lockUser, type FactorRow } from '../users/user.ts';

export async function enroll(request: UserRequest): Promise<Answer> {
  const { auth, body, now, signedIn } = request;
  const { user } = signedIn;
  if (user.is_anonymous) throw problems.anonymousRefused();
  const type = body.filled('factor_type');
  if (type === 'phone' || type === 'webauthn') throw problems.factorKindDisabled(type, 'enroll');
  if (type !== 'totp') throw problems.validationFailed('factor_type needs to be totp');
  const friendlyName = body.text('friendly_name') ?? '';
  if (friendlyName.length > 255) throw problems.validationFailed('friendly_name is too long');
  const id = randomUUID();
  const secret = newTotpSecret();
  await auth.db.transaction(async (db) => {
    // The lock serializes enrollments of a user, so that parallel requests cannot exceed the limit.
    const { lacksFactor } = await lockSignedIn(db, signedInIds(signedIn));
    await purgeStale(db, user.id, now);
    const factors = await db.query<Pick<FactorRow, 'friendly_name' | 'status'>>(
      sql`select friendly_name, status from auth.mfa_factors where user_id = ${user.id}`,
    );
    // An unnamed factor conflicts with another unnamed one.
    if (factors.some((factor) => (factor.friendly_name ?? '') === friendlyName))
      throw problems.factorNameConflict();
    if (factors.length >= MAX_FACTORS) throw problems.tooManyFactors();
    if (lacksFactor) throw problems.insufficientAal(403, 'AAL2 required to enroll a new factor');
    await db.query(sql`
      insert into auth.mfa_factors (id, user_id, friendly_name, factor_type, status, secret, created_at, updated_at)
      values (${id}, ${user.id}, ${friendlyName}, 'totp', 'unverified', ${auth.boxes.totpSecret.seal(secret, id)},
        ${now}, ${now})`);
    await recordAudit(db, request, 'factor_in_progress', user, { factor_type: 'totp' });
  });
  const issuer = body.filled('issuer') ?? request.settings.projectName ?? new URL(request.authUrl).host;
  return json({
    id,
    type: 'totp',
    friendly_name: friendlyName,
    totp: displayTotp(secret, issuer, user.email ?? user.id),
  });
}

export async function challenge(request: UserRequest): Promise<Answer> {
  const { auth, now } = request;
  const { user } = request.signedIn;
  const factor = findOwnFactor(request);
  await auth.limiter.byKey(BUCKETS.mfa, user.id, request);
  const id = randomUUID();
  await auth.db.transaction(async (db) => {
    await db.query(sql`
      insert into auth.mfa_challenges (id, factor_id, created_at, ip_address)
      values (${id}, ${factor.id}, ${now}, ${request.client.address})`);
    await db.query(sql`update auth.mfa_factors set last_challenged_at = ${now} where id = ${factor.id}`);
    const traits = { factor_id: factor.id, factor_status: factor.status };
    await recordAudit(db, request, 'challenge_created', user, traits);
  });
  return json({
    id,
    type: factor.factor_type,
    expires_at: Math.floor((now.getTime() + CHALLENGE_LIFETIME_MS) / 1000),
  });
}

export async function verifyFactor(request: UserRequest): Promise<Answer> {
  const { auth, body, now } = request;
  const { user, session: current } = request.signedIn;
  const factor = findOwnFactor(request);
  if (factor.factor_type !== 'totp') throw problems.factorKindDisabled(factor.factor_type, 'verify');
  const code = body.filled('code');
  if (code === undefined) throw problems.validationFailed('Code needs to be non-empty');
  const challengeId = body.filled('challenge_id');
  if (challengeId === undefined || !isUuid(challengeId))
    throw problems.badJson('challenge_id must be a UUID');
  await auth.limiter.byKey(BUCKETS.mfa, user.id, request);
  await auth.limiter.byKey(BUCKETS.mfaFactor, factor.id, request);
  await auth.db.transaction(async (db) => {
    const locked = current.restricted ? await lockUser(db, user.id) : undefined;
    await checkChallenge(db, challengeId, factor.id, now);
    const secret = await openTotpSecret(auth.boxes.totpSecret, db, factor.id);
    if (!secret) throw problems.unexpectedFailure('The factor cannot be read');
    const step = matchTotp(secret, code, now);
    if (step === undefined || !(await spendStep(db, factor.id, step))) throw problems.totpInvalid();
    if (locked) await proveAddress(db, request, locked, { kind: 'factor', now });
    await raise(db, request, factor.id, challengeId);
    const values = { FactorType: factor.factor_type };
    if (factor.status === 'unverified')
      await queueNotice(db, request, { kind: 'mfa_factor_enrolled', user, values });
  });
  auth.outbox.wake();
  await auth.limiter.refund(BUCKETS.mfaFactor, factor.id);
  const raised = await loadSessionAndUser(auth.db, { sessionId: current.id });
  const session = raised?.session;
  const key = session ? openSessionKey(auth, session) : undefined;
  if (!raised || !session || !key) throw problems.sessionNotFound();
  return json(await issueTokens(request, { user: raised.user, session, key }, 'totp'));
}

async function checkChallenge(db: Queryable, id: string, factorId: string, now: Date): Promise<void> {
  const [found] = await db.query<{ created_at: Date; verified_at: Date | null }>(sql`
    select created_at, verified_at from auth.mfa_challenges where id = ${id} and factor_id = ${factorId} for update`);
  if (!found) throw problems.factorNotFound(422);
  if (found.verified_at) throw problems.challengeUsed();
  if (now.getTime() - found.created_at.getTime() > CHALLENGE_LIFETIME_MS) throw problems.challengeExpired();
}

/**
 * Raises the session to aal2. Ends the user's aal1 sessions and rejects earlier refresh tokens of this
 * session.
 */
async function raise(
  db: Queryable,
  request: UserRequest,
  factorId: string,
  challengeId: string,
): Promise<void> {
  const { now } = request;
  const { user, session } = request.signedIn;
  const [raised] = await db.query(sql`
    update auth.sessions set aal = 'aal2', restricted = false, factor_id = ${factorId}, updated_at = ${now},
      refreshed_at = ${now},
      refresh_token_counter = refresh_token_counter + 2, refresh_token_floor = refresh_token_counter + 2
    where id = ${session.id} returning id`);
  if (!raised) throw problems.sessionNotFound();
  await db.query(sql`
    insert into auth.mfa_amr_claims (session_id, authentication_method, created_at, updated_at)
    values (${session.id}, 'totp', ${now}, ${now})
    on conflict (session_id, authentication_method) do update set updated_at = excluded.updated_at`);
  await db.query(sql`update auth.mfa_challenges set verified_at = ${now} where id = ${challengeId}`);
  await db.query(sql`
    update auth.mfa_factors set status = 'verified', updated_at = ${now} where id = ${factorId}
      and status <> 'verified'`);
  await db.query(sql`
    delete from auth.sessions where user_id = ${user.id} and id <> ${session.id} and aal = 'aal1'`);
  await db.query(sql`
    delete from auth.mfa_factors
    where user_id = ${user.id} and id <> ${factorId} and factor_type = 'totp' and status = 'unverified'`);
  const traits = { factor_id: factorId, factor_type: 'totp' };
  await recordAudit(db, request, 'verification_attempted', user, traits);
}

export async function unenroll(request: UserRequest): Promise<Answer> {
  const { auth, now, signedIn } = request;
  const factor = findOwnFactor(request);
  await auth.db.transaction(async (db) => {
    const { user, lacksFactor } = await lockSignedIn(db, signedInIds(signedIn));
    // Uses the user that was read under the lock, because another tab may have verified the factor.
    const isVerified = user.factors.some(({ id, status }) => id === factor.id && status === 'verified');
    if (isVerified && lacksFactor)
      throw problems.insufficientAal(422, 'AAL2 required to unenroll verified factor');
    await dropFactor(db, factor.id, now);
    await recordAudit(db, request, 'factor_unenrolled', user, {
      factor_id: factor.id,
      factor_type: factor.factor_type,
      factor_status: factor.status,
    });
    const values = { FactorType: factor.factor_type };
    if (isVerified) await queueNotice(db, request, { kind: 'mfa_factor_unenrolled', user, values });
  });
  auth.outbox.wake();
  return json({ id: factor.id });
}

function findOwnFactor({ path, signedIn: { user, session } }: UserRequest): FactorRow {
  if (user.is_anonymous) throw problems.anonymousRefused();
  const id = parsePathUuid(path['id'], 'factor_id');
  const factor = user.factors.find((candidate) => candidate.id === id);
  // Only a previously verified factor proves anything in a restricted session.
  if (!factor || (session.restricted && factor.status !== 'verified')) throw problems.factorNotFound(404);
  return factor;
}

/** Deletes abandoned enrollments. */
async function purgeStale(db: Queryable, userId: string, now: Date): Promise<void> {
  await db.query(sql`
    delete from auth.mfa_factors f
    where f.user_id = ${userId} and f.status = 'unverified'
      and f.created_at < ${new Date(now.getTime() - CHALLENGE_LIFETIME_MS)}
      and not exists (select from auth.mfa_challenges c where c.factor_id = f.id)`);
}
