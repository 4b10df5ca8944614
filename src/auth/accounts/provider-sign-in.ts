// Signs in with a provider's profile at the end of every flow: redirect, code exchange, confirm page, ID
// token.
import type { Queryable } from '../../postgres/owner-database.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { Problem } from '../../problem/problem.ts';
import type { SignedInIds } from '../access.ts';
import type { AuthContext } from '../auth-context.ts';
import type { AuthRequest } from '../http/request.ts';
import { problems } from '../problem.ts';
import { openProfile, type FlowRow } from '../sessions/flow-state.ts';
import { signIn, type OpenedSession } from '../sessions/session.ts';
import { resolveIdentity, type LinkOrder } from './identity-link.ts';

/** Finds or creates the account of a profile and opens a session. */
export async function signInWithProfile(
  db: Queryable,
  request: AuthRequest,
  order: LinkOrder,
): Promise<OpenedSession | Problem> {
  const found = await resolveIdentity(db, request, order);
  if (found instanceof Problem) return found;
  return await signIn(db, request, found.userId, { method: 'oauth', isRestricted: found.isRestricted });
}

/** Links the identity of a pending flow and opens a session. */
export async function signInWithPendingLink(
  db: Queryable,
  request: AuthRequest,
  flow: FlowRow,
): Promise<OpenedSession | Problem> {
  const profile = openProfile(request.auth, flow);
  const linking = linkingUser(flow);
  if (!profile || !linking) return problems.flowStateNotFound();
  const { provider_type: provider, email_optional: emailOptional } = flow;
  return await signInWithProfile(db, request, { provider, profile, emailOptional, linking });
}

/** Returns the user who links. A flow without a session is rejected like a flow whose session has ended. */
export function linkingUser(flow: FlowRow): SignedInIds | undefined {
  if (flow.linking_target_id === null) return undefined;
  return { userId: flow.linking_target_id, sessionId: flow.linking_session_id ?? NO_SESSION };
}

const NO_SESSION = '00000000-0000-0000-0000-000000000000';
const MAX_ATTEMPTS = 4;

/**
 * Runs `work` in a transaction and wakes the outbox. When two first sign-ins of one identity race, the second
 * runs again
 * and finds the account that the first has created.
 */
export async function transactionWithRetry<T>(
  auth: AuthContext,
  work: (db: Queryable) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      const result = await auth.db.transaction(work);
      auth.outbox.wake();
      return result;
    } catch (error) {
      if (!isTaken(error) || attempt === MAX_ATTEMPTS) throw error;
    }
  }
}

/**
 * Returns whether another request created the identity or the address first. A trigger of the application may
 * raise the
 * same SQLSTATE for its own table, so the schema is checked.
 */
export function isTaken(error: unknown): boolean {
  if (error instanceof Problem) return error.code === 'email_exists';
  return isDatabaseError(error, 'unique_violation') && error.schema === 'auth';
}
