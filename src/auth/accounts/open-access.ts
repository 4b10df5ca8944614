// Ends open access to an account: everything that signs in without a password, an identity or a verified
// factor.
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { voidAllTokens } from '../sessions/one-time-token.ts';
import { endSessions } from '../sessions/session.ts';

/** Ends sessions, flows, mailed secrets and unverified factors of a user. Keeps the flow `exceptFlow`. */
export async function endOpenAccess(
  db: Queryable,
  userId: string,
  exceptFlow: string | null = null,
): Promise<void> {
  await db.query(sql`delete from auth.mfa_factors where user_id = ${userId} and status = 'unverified'`);
  await db.query(sql`
    delete from auth.flow_state
    where (user_id = ${userId} or linking_target_id = ${userId}) and id is distinct from ${exceptFlow}`);
  await endSessions(db, userId, 'all');
  await voidAllTokens(db, userId);
}
