// The storage API as this page uses it, always as the chosen caller: what a policy hides is not shown here either.
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
  /** Null for a folder, which is only the common beginning of names. */
  id: string | null;
  updated_at: string | null;
  created_at: string | null;
  metadata: { size?: number; mimetype?: string; eTag?: string; cacheControl?: string } | null;
};

/** Where the page is: a bucket, and a folder in it that is empty or ends in a slash. */
export type Place = { bucket: string; folder: string; caller: CallerName };

export const PAGE_SIZE = 200;
const MOST_IN_ONE_DELETE = 1000;

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

/** Every object below the folder, however deep. */
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

/** How many there were: a policy may leave some where they are. */
export async function removeObjects({ bucket, caller }: Place, names: readonly string[]): Promise<number> {
  let removed = 0;
  for (let at = 0; at < names.length; at += MOST_IN_ONE_DELETE) {
    const gone = await send<unknown[]>(
      'DELETE',
      as(caller, 'storage', `object/${encodeURIComponent(bucket)}`),
      { prefixes: names.slice(at, at + MOST_IN_ONE_DELETE) },
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

/** The path behind the API's address, as the client libraries build it. */
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

/** The bytes, for this page only. */
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
