// Compares the members of the publication of realtime. Members that the file did not add are kept.
import type { Desired, DesiredTable } from '../schema/desired.ts';
import type { Live, LiveTable } from '../schema/live/live-schema.ts';
import type { OwnedTable } from '../schema/managed.ts';
import { PUBLISH_GENERATED_VERSION } from '../schema/publication.ts';
import type { Change } from './change.ts';

/** Compares the publication. Provisioning creates it, but after a server upgrade it may need another setting. */
export function diffPublication({ tables }: Desired, { publication, serverVersion }: Live): Change[] {
  if (!tables.some(({ model }) => model.realtime)) return [];
  if (publication === null) return [{ kind: 'create-publication', serverVersion }];
  const isAsNeeded = publication.generated || serverVersion < PUBLISH_GENERATED_VERSION;
  return isAsNeeded ? [] : [{ kind: 'publish-generated' }];
}

/** `live` is null for a new table. `isRekeyed`: this run replaces the primary key. */
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
  // Keep the identity of a table that realtime does not publish, unless the file has set it.
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
