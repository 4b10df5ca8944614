// Tables that tell of their changes, as the file says it: members of our publication, or of the one that a project of
// Supabase has.
import type { LiveTable } from '../schema/live/live-schema.ts';
import { primaryKeyOf } from '../schema/relation.ts';

const ALL_EVENTS = 3;

/** A member that the file cannot say is only noted: nobody is told more than before. */
export function realtimeKey(table: LiveTable, notes: string[]): Record<string, unknown> {
  const { published, publishedThere: there, replicaIdentity } = table;
  if (published === 'no' && (there === null || there.events.length === 0)) return {};
  const reason =
    primaryKeyOf(table).length === 0
      ? 'it has no primary key'
      : published === 'whole' || (published === 'no' && there?.whole)
        ? null
        : 'only some of its columns or rows are';
  if (reason !== null) {
    notes.push(`publication of its changes: ${reason}`);
    return {};
  }
  const events = published === 'no' ? (there?.events ?? []) : [];
  const said = {
    ...(events.length > 0 && events.length < ALL_EVENTS ? { events } : {}),
    ...(replicaIdentity === 'full' ? { old: 'full' } : {}),
  };
  return { realtime: Object.keys(said).length === 0 ? true : said };
}
