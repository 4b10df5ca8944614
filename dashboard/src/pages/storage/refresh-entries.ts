import type { QueryClient } from '@tanstack/react-query';

/** After a change. A first listing that is under way would answer for the time before it: it is asked for anew. */
export async function refreshEntries(queries: QueryClient): Promise<void> {
  await queries.cancelQueries({ queryKey: ['storage', 'entries'] });
  await queries.invalidateQueries({ queryKey: ['storage', 'entries'] });
}
