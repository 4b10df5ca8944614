// Which tables tell of their changes. Members that somebody else added stay; what the file added is taken back with it.
import type { Desired, DesiredTable } from '../schema/desired.ts';
import type { Live, LiveTable } from '../schema/live/live-schema.ts';
import type { OwnedTable } from '../schema/managed.ts';
import { PUBLISHES_GENERATED } from '../schema/publication.ts';
import type { Change } from './change.ts';

/** The publication itself: provisioning makes it, and on a server that has become newer it needs another setting. */
export function diffPublication({ tables }: Desired, { publication, serverVersion }: Live): Change[] {
  if (!tables.some(({ model }) => model.realtime)) return [];
  if (publication === null) return [{ kind: 'create-publication', serverVersion }];
  const isAsNeeded = publication.generated || serverVersion < PUBLISHES_GENERATED;
  return isAsNeeded ? [] : [{ kind: 'publish-generated' }];
}

/** `live`: null for a new table. `isRekeyed`: its primary key is made anew. */
export function diffPublished(
  table: DesiredTable,
  live: LiveTable | null,
  owned: OwnedTable,
  isRekeyed = false,
): Change[] {
  const { realtime } = table.model;
  const published = live?.published ?? 'no';
  const isOurs = (attribute: string): boolean => owned.attributes?.includes(attribute) === true;
  const changes: Change[] = [];
  const found = live?.replicaIdentity ?? 'default';
  // Of a table that is not published, another identity is somebody else's.
  const wanted = realtime
    ? realtime.old === 'full'
      ? 'full'
      : 'default'
    : isOurs('identity')
      ? 'default'
      : found;
  if (realtime ? published === 'part' : published !== 'no' && isOurs('published'))
    changes.push({ kind: 'unpublish', table, live, isPart: realtime !== undefined });
  if (wanted !== found && (wanted === 'default' || wanted === 'full'))
    changes.push({ kind: 'set-replica-identity', table, live, identity: wanted });
  else if (realtime && published !== 'no' && wanted === 'default' && isRekeyed)
    changes.push({ kind: 'keep-replica-identity', table, live });
  if (realtime && published !== 'whole') changes.push({ kind: 'publish', table, live });
  return changes;
}
