import type { QueryClient } from '@tanstack/react-query';

/**
 * Refreshes the lists after a change. Cancels a pending first request, because it may return the state before the
 * change.
 */
export async function refreshEntries(queries: QueryClient): Promise<void> {
  await queries.cancelQueries({ queryKey: ['storage', 'entries'] });
  await queries.invalidateQueries({ queryKey: ['storage', 'entries'] });
}
