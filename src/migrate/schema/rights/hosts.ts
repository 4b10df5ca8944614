// Hosts: tables of svc on which the file declares policies, for buckets and for private channels. The migration state
// records all policies of a host as one object.
import { tableKey } from '../model.ts';

/** Table with the policies of all buckets. */
export const STORAGE_OBJECTS = 'storage.objects';

/** Table with the channel policies: INSERT allows sending, SELECT allows receiving. */
export const REALTIME_MESSAGES = 'realtime.messages';

export const HOSTS = [STORAGE_OBJECTS, REALTIME_MESSAGES] as const;

export type Host = (typeof HOSTS)[number];

export type PerHost<T> = Readonly<Record<Host, T>>;

export function perHost<T>(create: (host: Host) => T): PerHost<T> {
  return { [STORAGE_OBJECTS]: create(STORAGE_OBJECTS), [REALTIME_MESSAGES]: create(REALTIME_MESSAGES) };
}

/** Identity and kind of a host's policies in the migration state. */
export const HOSTED_OBJECTS = {
  [STORAGE_OBJECTS]: { identity: 'storage policies', kind: 'storage_policies' },
  [REALTIME_MESSAGES]: { identity: 'channel policies', kind: 'channel_policies' },
} as const satisfies PerHost<unknown>;

/** Top-level key of the file that contains the policies. */
export const BLOCKS: PerHost<string> = { [STORAGE_OBJECTS]: 'storage', [REALTIME_MESSAGES]: 'realtime' };

/** Returns the name of a copy of the host in another schema. */
export function copyName(host: Host, schema: string): string {
  return tableKey(schema, host.slice(host.indexOf('.') + 1));
}
