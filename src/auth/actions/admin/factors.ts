// /admin/users/:id/factors: lists the factors of a user, renames them, and removes a lost one.
import { isDatabaseError } from '../../../postgres/pg-error.ts';
import { sql } from '../../../postgres/sql.ts';
import { ADMIN_ACTOR, recordAudit } from '../../audit.ts';
import { dropFactor } from '../../users/factor.ts';
import { queueNotice } from '../../mail/notice.ts';
import { parsePathUuid } from '../../fields.ts';
import { problems } from '../../problem.ts';
import { json, type Answer, type AuthRequest } from '../../http/request.ts';
import { toFactorJson, type FactorRow, type UserRow } from '../../users/user.ts';
import { readPathUser } from './users.ts';

export async function listFactors(request: AuthRequest): Promise<Answer> {
  const user = await readPathUser(request);
  return json(user.factors.map(toFactorJson));
}

export async function deleteFactor(request: AuthRequest): Promise<Answer> {
  const { factor, user } = await findFactor(request);
  await request.auth.db.transaction(async (db) => {
    await dropFactor(db, factor.id, request.now);
    await recordAudit(db, request, 'factor_deleted', ADMIN_ACTOR, { user_id: user.id, factor_id: factor.id });
    if (factor.status === 'verified') {
      const values = { FactorType: factor.factor_type };
      await queueNotice(db, request, { kind: 'mfa_factor_unenrolled', user, values });
    }
  });
  request.auth.outbox.wake();
  return json(toFactorJson(factor));
}

export async function updateFactor(request: AuthRequest): Promise<Answer> {
  const { auth, body, now } = request;
  const { factor, user } = await findFactor(request);
  const friendlyName = body.text('friendly_name');
  if (body.filled('phone') !== undefined && factor.factor_type !== 'phone') {
    throw problems.validationFailed('Only a phone factor has a phone number');
  }
  try {
    await auth.db.transaction(async (db) => {
      if (friendlyName !== undefined) {
        await db.query(sql`
          update auth.mfa_factors set friendly_name = ${friendlyName}, updated_at = ${now} where id = ${factor.id}`);
      }
      const traits = { user_id: user.id, factor_id: factor.id };
      await recordAudit(db, request, 'factor_updated', ADMIN_ACTOR, traits);
    });
  } catch (error) {
    throw isDatabaseError(error, 'unique_violation') ? problems.factorNameConflict() : error;
  }
  const updated = await findFactor(request);
  return json(toFactorJson(updated.factor));
}

type Found = { readonly user: UserRow; readonly factor: FactorRow };

async function findFactor(request: AuthRequest): Promise<Found> {
  const user = await readPathUser(request);
  const id = parsePathUuid(request.path['factor'], 'factor_id');
  const factor = user.factors.find((candidate) => candidate.id === id);
  if (!factor) throw problems.factorNotFound(404);
  return { user, factor };
}
