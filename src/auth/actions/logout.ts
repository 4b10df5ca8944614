// POST /logout: ends this session, all of them, or all the others.
import type { AuthContext } from '../auth-context.ts';
import { recordAudit } from '../audit.ts';
import type { SignedIn } from '../access.ts';
import { validationFailed } from '../problem.ts';
import { NO_CONTENT, type Answer, type AuthRequest } from '../http/request.ts';
import { endSessions, type SessionSelection } from '../sessions/session.ts';

export async function logout(
  auth: AuthContext,
  request: AuthRequest,
  { user, session }: SignedIn,
): Promise<Answer> {
  const which = selection(request.query.filled('scope') ?? 'global', session.id);
  if (!which) throw validationFailed('Unsupported logout scope');
  await auth.db.transaction(async (db) => {
    await endSessions(db, user.id, which);
    await recordAudit(db, { action: 'logout', actor: user, ip: request.ip, now: request.now });
  });
  return NO_CONTENT;
}

function selection(scope: string, sessionId: string): SessionSelection | undefined {
  if (scope === 'global') return 'all';
  if (scope === 'local') return { only: sessionId };
  return scope === 'others' ? { allBut: sessionId } : undefined;
}
