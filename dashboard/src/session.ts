import { queryOptions, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import type { Session } from '../../src/dashboard-api/contract.ts';
import { followSession, get, send } from './api.ts';

export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: async ({ signal }) => remember(await get<Session>('/session', signal)),
  staleTime: Infinity,
});

function remember(session: Session): Session {
  followSession(session);
  return session;
}

/** Returns the current session. Pages are rendered only when it is signed in. */
export function useSession(): Session | undefined {
  return useQuery(sessionQuery).data;
}

/** Returns whether the page may change anything. The server decides; this only hides actions that it would reject. */
export function useCanWrite(): boolean {
  return useSession()?.mode === 'readwrite';
}

let hasSignedOut = false;

/** False after a sign-out, so that local sign-in does not happen automatically. */
export function canSignInAutomatically(): boolean {
  return !hasSignedOut;
}

type SignIn = { kind: 'key'; secretKey: string } | { kind: 'local' };

export function useSignIn() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (how: SignIn) =>
      remember(
        how.kind === 'local'
          ? await send<Session>('POST', '/session/local')
          : await send<Session>('POST', '/session', { secret_key: how.secretKey }),
      ),
    onSuccess: (session) => queries.setQueryData(sessionQuery.queryKey, session),
  });
}

export function useSignOut() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => send('DELETE', '/session'),
    onSuccess: async () => {
      hasSignedOut = true;
      // Remove all cached data, because another person may use the browser next.
      queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionQuery.queryKey[0] });
      await queries.invalidateQueries({ queryKey: sessionQuery.queryKey });
    },
  });
}
