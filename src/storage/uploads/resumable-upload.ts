// A resumable upload as a row of `storage.resumable_uploads`, so that any instance can continue what another began.
import { createHash, randomUUID } from 'node:crypto';
import type { OwnerDatabase, Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import type { StagedPart } from '../backend/backend.ts';
import { reserveVersion } from '../objects/commit.ts';
import type { UserMetadata } from '../objects/object.ts';
import type { Address } from '../objects/object-path.ts';
import { jsonOrNull } from '../objects/permission.ts';
import type { UploadFields } from './fields.ts';

const LIFETIME_MS = 24 * 60 * 60_000;
/** A part with the MD5 of its bytes, for the entity tag. */
export type ReceivedPart = StagedPart & { readonly md5: string };

export type ResumableUpload = {
  readonly version: string;
  readonly bucket: string;
  readonly name: string;
  /** Size of the whole; null until the client declares it. */
  readonly length: number | null;
  /** Bytes stored so far. */
  readonly offset: number;
  readonly parts: readonly ReceivedPart[];
  readonly rawMetadata: string;
  readonly fields: Pick<UploadFields, 'contentType' | 'cacheControl'>;
  readonly userMetadata: UserMetadata;
  readonly ownerId: string | null;
  readonly upsert: boolean;
  readonly expiresAt: Date;
  readonly completed: boolean;
};

export type UploadRow = {
  version: string;
  bucket_id: string;
  name: string;
  length: string | null;
  received: string;
  parts: ReceivedPart[];
  raw_metadata: string;
  file_metadata: { contentType: string; cacheControl: string };
  user_metadata: Record<string, unknown> | null;
  owner_id: string | null;
  upsert: boolean;
  expires_at: Date;
  completed_at: Date | null;
};

export async function createResumable(
  owner: OwnerDatabase,
  upload: Omit<ResumableUpload, 'version' | 'offset' | 'parts' | 'expiresAt' | 'completed'>,
): Promise<ResumableUpload> {
  const version = randomUUID();
  const expiresAt = new Date(Date.now() + LIFETIME_MS);
  return await owner.transaction(async (transaction) => {
    await reserveVersion(transaction, version, upload, expiresAt);
    // Unlike other uploads this one is acknowledged before it is complete, so it must survive a crash.
    await transaction.query(sql`set local synchronous_commit to on`);
    const [row] = await transaction.query<UploadRow>(sql`
      insert into storage.resumable_uploads (version, bucket_id, name, length, raw_metadata, file_metadata,
        user_metadata, owner_id, upsert, expires_at)
      values (${version}, ${upload.bucket}, ${upload.name}, ${upload.length}, ${upload.rawMetadata},
        ${JSON.stringify(upload.fields)}::jsonb, ${jsonOrNull(upload.userMetadata)}::jsonb, ${upload.ownerId},
        ${upload.upsert}, ${expiresAt})
      returning *`);
    if (!row) throw new Error('an insert returned no row');
    return toUpload(row);
  });
}

export async function findResumable(owner: Queryable, version: string): Promise<ResumableUpload | undefined> {
  const [row] = await owner.query<UploadRow>(
    sql`select * from storage.resumable_uploads where version = ${version}`,
  );
  return row ? toUpload(row) : undefined;
}

export async function declareLength(owner: Queryable, version: string, length: number): Promise<void> {
  await owner.query(
    sql`update storage.resumable_uploads set length = ${length} where version = ${version} and length is null`,
  );
}

/** Records a part that is durable; undefined when the lease is lost. */
export async function recordPart(
  owner: Queryable,
  { version, offset }: ResumableUpload,
  leaseId: string,
  part: ReceivedPart,
): Promise<ResumableUpload | undefined> {
  const [row] = await owner.query<UploadRow>(sql`
    update storage.resumable_uploads
    set received = received + ${part.bytes}, parts = parts || ${JSON.stringify([part])}::jsonb
    where version = ${version} and writer = ${leaseId} and received = ${offset}
    returning *`);
  return row ? toUpload(row) : undefined;
}

export async function markCompleted(owner: Queryable, version: string): Promise<void> {
  await owner.query(
    sql`update storage.resumable_uploads set completed_at = now(), writer = null where version = ${version}`,
  );
}

export async function deleteResumable(owner: Queryable, version: string): Promise<void> {
  await owner.query(sql`delete from storage.resumable_uploads where version = ${version}`);
}

/** The MD5 of a single part; of several, as in S3, the MD5 of their MD5s and their number. */
export function entityTag(parts: readonly ReceivedPart[]): string {
  const [only] = parts;
  if (parts.length === 1 && only) return `"${only.md5}"`;
  const hash = createHash('md5');
  for (const part of parts) hash.update(Buffer.from(part.md5, 'hex'));
  return parts.length === 0 ? `"${hash.digest('hex')}"` : `"${hash.digest('hex')}-${parts.length}"`;
}

/** The upload's id in its URL. It names the destination, and the version makes it unguessable. */
export function toUploadId({ bucket, name, version }: Address & { readonly version: string }): string {
  return Buffer.from(`${bucket}/${name}/${version}`).toString('base64url');
}

export function parseUploadId(id: string): (Address & { readonly version: string }) | undefined {
  const text = Buffer.from(id, 'base64url').toString('utf8');
  const match = /^([^/]+)\/(.+)\/([0-9a-f-]{36})$/s.exec(text);
  if (!match) return undefined;
  const [, bucket = '', name = '', version = ''] = match;
  return { bucket, name, version };
}

export function toUpload(row: UploadRow): ResumableUpload {
  return {
    version: row.version,
    bucket: row.bucket_id,
    name: row.name,
    length: row.length === null ? null : Number(row.length),
    offset: Number(row.received),
    parts: row.parts,
    rawMetadata: row.raw_metadata,
    fields: row.file_metadata,
    userMetadata: row.user_metadata,
    ownerId: row.owner_id,
    upsert: row.upsert,
    expiresAt: row.expires_at,
    completed: row.completed_at !== null,
  };
}
