// Objects as rows of `storage.objects`: their shape, and finding one as the owner or as the caller.
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { toWire, type CallerPool, type CallerSettings } from '../../postgres/pool/caller-pool.ts';
import { isoTimestamp, sql, type Sql } from '../../postgres/sql.ts';
import { isHeaderValue } from './content-type.ts';
import type { Address } from './object-path.ts';

/** The `metadata` column: what the server knows about an object's bytes. */
export type FileMetadata = {
  readonly eTag: string;
  readonly size: number;
  readonly mimetype: string;
  readonly cacheControl: string;
  readonly lastModified: string;
  readonly contentLength: number;
  readonly httpStatusCode: number;
  readonly contentEncoding?: string | undefined;
  readonly xRobotsTag?: string | undefined;
};

/** The `user_metadata` column. */
export type UserMetadata = Readonly<Record<string, unknown>> | null;

export type StoredObject = {
  readonly id: string;
  readonly bucket_id: string;
  readonly name: string;
  readonly owner: string | null;
  readonly owner_id: string | null;
  readonly version: string;
  readonly metadata: Readonly<Record<string, unknown>> | null;
  readonly user_metadata: UserMetadata;
  readonly created_at: string;
  readonly updated_at: string;
  readonly last_accessed_at: string;
};

/** An object as JSON. Lists its keys, so that a column added to the table is not exposed. */
export const OBJECT_JSON: Sql = sql`json_build_object(
  'name', o.name, 'bucket_id', o.bucket_id, 'owner', o.owner, 'owner_id', o.owner_id, 'version', o.version, 'id', o.id,
  'updated_at', ${isoTimestamp('o.updated_at')}, 'created_at', ${isoTimestamp('o.created_at')},
  'last_accessed_at', ${isoTimestamp('o.last_accessed_at')}, 'metadata', o.metadata, 'user_metadata', o.user_metadata)`;

/** Finds an object as the owner, without policies: for public and signed reads. */
export async function findObject(
  owner: OwnerDatabase,
  { bucket, name }: Address,
): Promise<StoredObject | undefined> {
  const row = await owner.maybeOne<{ object: StoredObject }>(
    sql`select ${OBJECT_JSON} as object from storage.objects o where o.bucket_id = ${bucket} and o.name = ${name}`,
  );
  return row?.object;
}

/** Finds an object as the caller. Undefined if it is missing or hidden by a policy. */
export async function findObjectAs(
  callers: CallerPool,
  caller: CallerSettings,
  { bucket, name }: Address,
): Promise<StoredObject | undefined> {
  const [json] = await readAs(
    callers,
    caller,
    sql`select ${OBJECT_JSON} from storage.objects o where o.bucket_id = ${bucket} and o.name = ${name}`,
  );
  return json === undefined ? undefined : (JSON.parse(json) as StoredObject);
}

/** First column of each row of a read-only statement as the caller. */
export async function readAs(callers: CallerPool, caller: CallerSettings, statement: Sql): Promise<string[]> {
  const [result] = await callers.run(caller, [toWire(statement)], { readOnly: true });
  return firstColumn(result);
}

export function firstColumn(
  result: { readonly rows: ReadonlyArray<ReadonlyArray<Buffer | null>> } | undefined,
): string[] {
  return (result?.rows ?? []).map(([cell]) => cell?.toString('utf8') ?? '');
}

export type ObjectFacts = {
  readonly size: number;
  readonly contentType: string;
  readonly cacheControl: string;
  readonly etag: string;
  readonly lastModified: Date;
  readonly contentEncoding: string | undefined;
  readonly robots: string | undefined;
};

/**
 * Returns the properties that a download needs. The table can be written with SQL, so nothing in `metadata` is
 * trusted.
 */
export function objectFacts({ metadata, version, updated_at: updatedAt }: StoredObject): ObjectFacts {
  const size = metadata?.['size'];
  const header = (key: string): string | undefined => {
    const value = metadata?.[key];
    return typeof value === 'string' && value !== '' && isHeaderValue(value) ? value : undefined;
  };
  return {
    size: typeof size === 'number' ? size : 0,
    contentType: header('mimetype') ?? 'application/octet-stream',
    cacheControl: header('cacheControl') ?? 'no-cache',
    etag: header('eTag') ?? `"${version}"`,
    lastModified: new Date(header('lastModified') ?? updatedAt),
    contentEncoding: header('contentEncoding'),
    robots: header('xRobotsTag'),
  };
}

export function fileMetadata(
  fields: Pick<ObjectFacts, 'contentType' | 'cacheControl'> &
    Partial<Pick<ObjectFacts, 'contentEncoding' | 'robots'>>,
  size: number,
  eTag: string,
  now: Date,
): FileMetadata {
  return {
    eTag,
    size,
    mimetype: fields.contentType,
    cacheControl: fields.cacheControl,
    lastModified: now.toISOString(),
    contentLength: size,
    httpStatusCode: 200,
    ...(fields.contentEncoding === undefined ? {} : { contentEncoding: fields.contentEncoding }),
    ...(fields.robots === undefined ? {} : { xRobotsTag: fields.robots }),
  };
}
