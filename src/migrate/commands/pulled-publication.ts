// Converts members of the publication of svc, or of the publication of a Supabase project, to the key `realtime`.
import type { LiveTable } from '../schema/live/live-schema.ts';
import { primaryKeyColumns } from '../schema/relation.ts';

const ALL_EVENTS = 3;

/** Returns the key `realtime`. A member that the file cannot express is noted instead, so that no more is published. */
export function realtimeKey(table: LiveTable, notes: string[]): Record<string, unknown> {
  const { published, supabasePublication: there, replicaIdentity } = table;
  if (published === 'no' && (there === null || there.events.length === 0)) return {};
  const reason =
    primaryKeyColumns(table).length === 0
      ? 'it has no primary key'
      : published === 'whole' || (published === 'no' && there?.whole)
        ? null
        : 'only some of its columns or rows are';
  if (reason !== null) {
    notes.push(`publication of its changes: ${reason}`);
    return {};
  }
  const events = published === 'no' ? (there?.events ?? []) : [];
  const options = {
    ...(events.length > 0 && events.length < ALL_EVENTS ? { events } : {}),
    ...(replicaIdentity === 'full' ? { old: 'full' } : {}),
  };
  return { realtime: Object.keys(options).length === 0 ? true : options };
}
