// POST /logout: ends this session, all sessions, or all other sessions.
import { recordAudit } from '../audit.ts';
import type { UserRequest } from '../access.ts';
import { problems } from '../problem.ts';
import { NO_CONTENT, type Answer } from '../http/request.ts';
import { endSessions, type SessionSelection } from '../sessions/session.ts';

export async function logout(request: UserRequest): Promise<Answer> {
  const { user, session } = request.signedIn;
  // A restricted session cannot end other sessions.
  const scope = session.restricted ? 'local' : (request.query.filled('scope') ?? 'global');
  const sessions = selection(scope, session.id);
  if (!sessions) throw problems.validationFailed('Unsupported logout scope');
  await request.auth.db.transaction(async (db) => {
    await endSessions(db, user.id, sessions);
    await recordAudit(db, request, 'logout', user);
  });
  return NO_CONTENT;
}

function selection(scope: string, sessionId: string): SessionSelection | undefined {
  if (scope === 'global') return 'all';
  if (scope === 'local') return { only: sessionId };
  return scope === 'others' ? { allBut: sessionId } : undefined;
}
