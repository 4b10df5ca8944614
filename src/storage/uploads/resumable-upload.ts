// A resumable upload as a row: created, written by one request at a time, completed once. The row outlives the
// process that made it, so any instance can go on where another one stopped.
import { createHash, randomUUID } from 'node:crypto';
import type { OwnerDatabase, Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import type { StagedPart } from '../backend/backend.ts';
import { jsonOrNull, reserveVersion } from '../objects/object.ts';
import type { Address } from '../objects/object-path.ts';
import type { UploadFields } from './incoming.ts';

const RESUMABLE_LIFE_MS = 24 * 60 * 60_000;
/** A writer that has not been heard of for this long is dead, or as good as. */
const LEASE_SECONDS = 15;

/** A part and the MD5 of its bytes: together they make the entity tag without reading anything twice. */
export type ReceivedPart = StagedPart & { readonly md5: string };

export type ResumableUpload = {
  readonly version: string;
  readonly bucket: string;
  readonly name: string;
  readonly length: number | null;
  readonly received: number;
  readonly parts: readonly ReceivedPart[];
  readonly rawMetadata: string;
  readonly fields: Pick<UploadFields, 'contentType' | 'cacheControl'>;
  readonly userMetadata: Readonly<Record<string, unknown>> | null;
  readonly ownerId: string | null;
  readonly upsert: boolean;
  readonly expiresAt: Date;
  readonly completed: boolean;
};

type UploadRow = {
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
  upload: Omit<ResumableUpload, 'version' | 'received' | 'parts' | 'expiresAt' | 'completed'>,
): Promise<ResumableUpload> {
  const version = randomUUID();
  const expiresAt = new Date(Date.now() + RESUMABLE_LIFE_MS);
  return await owner.transaction(async (transaction) => {
    await reserveVersion(transaction, version, upload, expiresAt);
    // Unlike a plain upload this is answered before it is complete: the URL must outlive a crash.
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

/** Takes the upload for one writer; undefined while another one has it, who is then asked to stop. */
export async function takeLease(
  owner: Queryable,
  version: string,
  writer: string,
): Promise<ResumableUpload | undefined> {
  const [row] = await owner.query<UploadRow>(sql`
    update storage.resumable_uploads
    set writer = ${writer}, writer_until = now() + make_interval(secs => ${LEASE_SECONDS}), wanted_by = null
    where version = ${version} and (writer is null or writer_until < now())
    returning *`);
  if (row) return toUpload(row);
  await owner.query(
    sql`update storage.resumable_uploads set wanted_by = ${writer} where version = ${version} and writer is not null`,
  );
  return undefined;
}

/** False when the writer should stop: somebody waits, or the lease is gone. */
export async function renewLease(owner: Queryable, version: string, writer: string): Promise<boolean> {
  const [row] = await owner.query<{ wanted_by: string | null }>(sql`
    update storage.resumable_uploads set writer_until = now() + make_interval(secs => ${LEASE_SECONDS})
    where version = ${version} and writer = ${writer} returning wanted_by`);
  return row !== undefined && row.wanted_by === null;
}

export async function dropLease(owner: Queryable, version: string, writer: string): Promise<void> {
  await owner.query(sql`
    update storage.resumable_uploads set writer = null, writer_until = null
    where version = ${version} and writer = ${writer}`);
}

/** Records what is durable now; undefined when the lease went to somebody else meanwhile. */
export async function recordPart(
  owner: Queryable,
  upload: ResumableUpload,
  writer: string,
  part: ReceivedPart,
): Promise<ResumableUpload | undefined> {
  const [row] = await owner.query<UploadRow>(sql`
    update storage.resumable_uploads
    set received = received + ${part.bytes}, parts = parts || ${JSON.stringify([part])}::jsonb
    where version = ${upload.version} and writer = ${writer} and received = ${upload.received}
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

/** One part: its MD5, as for any upload. Several: the MD5 of their MD5s and their number, as object stores do it. */
export function entityTag(parts: readonly ReceivedPart[]): string {
  const [only] = parts;
  if (parts.length === 1 && only) return `"${only.md5}"`;
  const hash = createHash('md5');
  for (const part of parts) hash.update(Buffer.from(part.md5, 'hex'));
  return parts.length === 0 ? `"${hash.digest('hex')}"` : `"${hash.digest('hex')}-${parts.length}"`;
}

/** The public name of an upload: it tells where it goes, and the version makes it unguessable. */
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

function toUpload(row: UploadRow): ResumableUpload {
  return {
    version: row.version,
    bucket: row.bucket_id,
    name: row.name,
    length: row.length === null ? null : Number(row.length),
    received: Number(row.received),
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
