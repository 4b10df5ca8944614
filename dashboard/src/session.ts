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

/** The session of whoever looks at a page: pages are shown to signed-in people only. */
export function useSession(): Session | undefined {
  return useQuery(sessionQuery).data;
}

/** Whether this page may change anything. The server decides; this only spares people the refusal. */
export function useMayWrite(): boolean {
  return useSession()?.mode === 'readwrite';
}

let hasSignedOut = false;

/** Whoever signed out wants to stay out, even where no key is needed to come in. */
export function maySignInUnasked(): boolean {
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
      // Nothing of what was seen stays in memory for whoever sits down next.
      queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionQuery.queryKey[0] });
      await queries.invalidateQueries({ queryKey: sessionQuery.queryKey });
    },
  });
}
