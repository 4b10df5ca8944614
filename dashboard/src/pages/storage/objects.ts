// Requests to the storage API, always as the chosen caller: objects that a policy hides are not shown.
import type { CallerName } from '../../../../src/dashboard-api/contract.ts';
import { apiUrl, as, get, send } from '../../api.ts';

export type Bucket = {
  id: string;
  public: boolean;
  file_size_limit: number | null;
  allowed_mime_types: string[] | null;
};

export type StoredEntry = {
  name: string;
  /** Null for a folder, which is only a common prefix of names. */
  id: string | null;
  updated_at: string | null;
  created_at: string | null;
  metadata: { size?: number; mimetype?: string; eTag?: string; cacheControl?: string } | null;
};

/** Current location: a bucket and a folder, which is empty or ends in a slash. */
export type Place = { bucket: string; folder: string; caller: CallerName };

export const PAGE_SIZE = 200;
const MAX_DELETE_BATCH = 1000;

export function listBuckets(signal: AbortSignal): Promise<Bucket[]> {
  return get<Bucket[]>(as('service', 'storage', 'bucket'), signal);
}

export function listEntries(place: Place, search: string, offset: number): Promise<StoredEntry[]> {
  return send('POST', as(place.caller, 'storage', `object/list/${encodeURIComponent(place.bucket)}`), {
    prefix: place.folder,
    search,
    limit: PAGE_SIZE,
    offset,
    sortBy: { column: 'name', order: 'asc' },
  });
}

/** Returns all objects below the folder, at any depth. */
export async function listBelow({ bucket, caller }: Place, folder: string): Promise<StoredEntry[]> {
  type Answer = { objects: StoredEntry[]; hasNext: boolean; nextCursor?: string };
  const found: StoredEntry[] = [];
  let cursor: string | undefined;
  do {
    const answer: Answer = await send(
      'POST',
      as(caller, 'storage', `object/list-v2/${encodeURIComponent(bucket)}`),
      { prefix: folder, limit: 1000, ...(cursor === undefined ? {} : { cursor }) },
    );
    found.push(...answer.objects);
    cursor = answer.hasNext ? answer.nextCursor : undefined;
  } while (cursor !== undefined);
  return found;
}

/** Returns the number of deleted objects. Policies may prevent some deletions. */
export async function removeObjects({ bucket, caller }: Place, names: readonly string[]): Promise<number> {
  let removed = 0;
  for (let at = 0; at < names.length; at += MAX_DELETE_BATCH) {
    const gone = await send<unknown[]>(
      'DELETE',
      as(caller, 'storage', `object/${encodeURIComponent(bucket)}`),
      { prefixes: names.slice(at, at + MAX_DELETE_BATCH) },
    );
    removed += gone.length;
  }
  return removed;
}

export function moveObject({ bucket, caller }: Place, from: string, to: string): Promise<unknown> {
  return send('POST', as(caller, 'storage', 'object/move'), {
    bucketId: bucket,
    sourceKey: from,
    destinationKey: to,
  });
}

/** Returns a signed path relative to the base URL, as client libraries build it. */
export async function signObject({ bucket, caller }: Place, name: string, seconds: number): Promise<string> {
  const { signedURL } = await send<{ signedURL: string }>(
    'POST',
    as(caller, 'storage', `object/sign/${objectPath(bucket, name)}`),
    { expiresIn: seconds },
  );
  return `/storage/v1${encodeURI(signedURL)}`;
}

export function publicPath(bucket: string, name: string): string {
  return `/storage/v1/object/public/${objectPath(bucket, name)}`;
}

/** Returns the path of the content for use in this page. */
export function contentPath({ bucket, caller }: Place, name: string): string {
  return as(caller, 'storage', `object/authenticated/${objectPath(bucket, name)}`);
}

export function downloadUrl(place: Place, name: string): string {
  const file = name.slice(name.lastIndexOf('/') + 1);
  return apiUrl(`${contentPath(place, name)}?download=${encodeURIComponent(file)}`);
}

export function uploadPath({ bucket, caller }: Place, name: string): string {
  return as(caller, 'storage', `object/${objectPath(bucket, name)}`);
}

function objectPath(bucket: string, name: string): string {
  return [bucket, ...name.split('/')].map(encodeURIComponent).join('/');
}
