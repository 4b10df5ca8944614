// /admin/users/:id/factors: an operator's view of a user's factors, and the way back in for who lost one.
import { isDatabaseError } from '../../../postgres/pg-error.ts';
import { sql } from '../../../postgres/sql.ts';
import type { AuthContext } from '../../auth-context.ts';
import { ADMIN_ACTOR, recordAudit } from '../../audit.ts';
import { dropFactor } from '../../users/factor.ts';
import { parsePathUuid } from '../../fields.ts';
import { factorNameConflict, factorNotFound, userNotFound, validationFailed } from '../../problem.ts';
import { json, type Answer, type AuthRequest } from '../../http/request.ts';
import { findUserById, toFactorJson, type FactorRow, type UserRow } from '../../users/user.ts';

export async function listFactors(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  const user = await findOwner(auth, request);
  return json(user.factors.map(toFactorJson));
}

export async function deleteFactor(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  const { factor, user } = await findFactor(auth, request);
  await auth.db.transaction(async (db) => {
    await dropFactor(db, factor.id, request.now);
    await recordAudit(db, {
      action: 'factor_deleted',
      actor: ADMIN_ACTOR,
      ip: request.ip,
      now: request.now,
      traits: { user_id: user.id, factor_id: factor.id },
    });
  });
  return json(toFactorJson(factor));
}

export async function updateFactor(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  const { body, now } = request;
  const { factor, user } = await findFactor(auth, request);
  const friendlyName = body.text('friendly_name');
  if (body.filled('phone') !== undefined && factor.factor_type !== 'phone') {
    throw validationFailed('Only a phone factor has a phone number');
  }
  try {
    await auth.db.transaction(async (db) => {
      if (friendlyName !== undefined) {
        await db.query(sql`
          update auth.mfa_factors set friendly_name = ${friendlyName}, updated_at = ${now} where id = ${factor.id}`);
      }
      await recordAudit(db, {
        action: 'factor_updated',
        actor: ADMIN_ACTOR,
        ip: request.ip,
        now,
        traits: { user_id: user.id, factor_id: factor.id },
      });
    });
  } catch (error) {
    throw isDatabaseError(error, 'unique_violation') ? factorNameConflict() : error;
  }
  const updated = await findFactor(auth, request);
  return json(toFactorJson(updated.factor));
}

async function findOwner(auth: AuthContext, request: AuthRequest): Promise<UserRow> {
  const user = await findUserById(auth.db, parsePathUuid(request.path['id'], 'user_id'));
  if (!user) throw userNotFound(404);
  return user;
}

async function findFactor(
  auth: AuthContext,
  request: AuthRequest,
): Promise<{ user: UserRow; factor: FactorRow }> {
  const user = await findOwner(auth, request);
  const id = parsePathUuid(request.path['factor'], 'factor_id');
  const factor = user.factors.find((one) => one.id === id);
  if (!factor) throw factorNotFound(404);
  return { user, factor };
}
