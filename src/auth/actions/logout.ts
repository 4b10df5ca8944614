// POST /logout: ends this session, all sessions, or all others.
import { recordAudit } from '../audit.ts';
import type { UserRequest } from '../access.ts';
import { problems } from '../problem.ts';
import { NO_CONTENT, type Answer } from '../http/request.ts';
import { endSessions, type SessionSelection } from '../sessions/session.ts';

export async function logout(request: UserRequest): Promise<Answer> {
  const { user, session } = request.signedIn;
  const which = selection(request.query.filled('scope') ?? 'global', session.id);
  if (!which) throw problems.validationFailed('Unsupported logout scope');
  await request.auth.db.transaction(async (db) => {
    await endSessions(db, user.id, which);
    await recordAudit(db, request, 'logout', user);
  });
  return NO_CONTENT;
}

function selection(scope: string, sessionId: string): SessionSelection | undefined {
  if (scope === 'global') return 'all';
  if (scope === 'local') return { only: sessionId };
  return scope === 'others' ? { allBut: sessionId } : undefined;
}
