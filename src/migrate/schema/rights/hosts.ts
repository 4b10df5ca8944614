// Tables of svc itself that have policies of the file: what buckets hold, and what is sent in private channels. The
// policies of one are recorded as one object; nothing else of these tables is the file's.
import { tableKey } from '../model.ts';

/** The one table that the policies of all buckets are on. */
export const STORAGE_OBJECTS = 'storage.objects';

/** What may be inserted here may be sent, and what may be selected is received. */
export const REALTIME_MESSAGES = 'realtime.messages';

export const HOSTS = [STORAGE_OBJECTS, REALTIME_MESSAGES] as const;

export type Host = (typeof HOSTS)[number];

export type PerHost<T> = Readonly<Record<Host, T>>;

export function perHost<T>(of: (host: Host) => T): PerHost<T> {
  return { [STORAGE_OBJECTS]: of(STORAGE_OBJECTS), [REALTIME_MESSAGES]: of(REALTIME_MESSAGES) };
}

/** Identity and kind of its policies in the state of the engine. */
export const HOSTED_OBJECTS = {
  [STORAGE_OBJECTS]: { identity: 'storage policies', kind: 'storage_policies' },
  [REALTIME_MESSAGES]: { identity: 'channel policies', kind: 'channel_policies' },
} as const satisfies PerHost<unknown>;

/** The block of the file that its policies are in. */
export const BLOCKS: PerHost<string> = { [STORAGE_OBJECTS]: 'storage', [REALTIME_MESSAGES]: 'realtime' };

/** A table like it in another schema. */
export function copyOf(host: Host, schema: string): string {
  return tableKey(schema, host.slice(host.indexOf('.') + 1));
}
