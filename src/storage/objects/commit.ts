// Turning stored bytes into an object: a version is reserved before the first byte and consumed by the commit, so
// that the database accounts for every state a crash can leave.
import { setTimeout as delay } from 'node:timers/promises';
import type { Queryable } from '../../postgres/owner-database.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import type { CallerPool, CallerSettings } from '../../postgres/pool/caller-pool.ts';
import { sql } from '../../postgres/sql.ts';
import { alreadyExists, lockTimeout } from '../problem.ts';
import { OBJECT_JSON, type FileMetadata, type StoredObject } from './object.ts';
import type { Address } from './object-path.ts';
import { asUuid, dryRunUpload, jsonOrNull, xminColumn, type Draft } from './permission.ts';

/**
 * Records a version before its first byte is stored. Does not wait for the disk: if a database crash loses the row,
 * the upload was never acknowledged, and the orphan scan finds its bytes.
 */
export async function reserveVersion(
  owner: Queryable,
  version: string,
  { bucket, name }: Address,
  expiresAt: Date,
): Promise<void> {
  await owner.query(sql`
    with async_commit as (select set_config('synchronous_commit', 'off', true))
    insert into storage.pending_blobs (version, bucket_id, name, expires_at)
    select ${version}, ${bucket}, ${name}, ${expiresAt}::timestamptz from async_commit`);
}

/** Queues the bytes of a reserved version, whole or partial, for deletion. No effect once it is committed. */
export async function abandonVersion(owner: Queryable, version: string): Promise<void> {
  await owner.query(sql`
    with abandoned as (delete from storage.pending_blobs where version = ${version} returning *)
    insert into storage.blob_gc (version, bucket_id, name, reason, queued_at)
    select version, bucket_id, name, 'abandoned', 'epoch' from abandoned
    on conflict (version) do nothing`);
}

export type Commit = Draft & { readonly version: string; readonly metadata: FileMetadata };

/** `expired`: the reservation, so nothing may point at the version. `changed`: the row is not in the expected state. */
type Outcome = StoredObject | 'expired' | 'changed';

/** Attempts; each failure means that another upload of the same name won. */
const MAX_ATTEMPTS = 50;
const RETRY_DELAY_MS = 20;

/**
 * Checks permission again, now with the final metadata, and commits. When another writer comes in between, both are
 * repeated on what that writer left. Undefined when the reservation has expired.
 */
export async function commitAs(
  { callers, owner }: { readonly callers: CallerPool; readonly owner: Queryable },
  caller: CallerSettings,
  commit: Commit,
  upsert: boolean,
): Promise<StoredObject | undefined> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const replaces = await dryRunUpload(callers, caller, commit, upsert);
    const outcome = await tryCommit(owner, commit, replaces).catch((error: unknown): Outcome => {
      if (!isDatabaseError(error, 'unique_violation')) throw error;
      if (!upsert) throw alreadyExists();
      return 'changed';
    });
    if (outcome === 'expired') return undefined;
    if (outcome !== 'changed') return outcome;
    // Random, because the others retry too.
    await delay(Math.random() * RETRY_DELAY_MS);
  }
  throw lockTimeout();
}

/**
 * Commits an object of the product itself, without checking policies. Replaces an object of the same name.
 */
export async function commitAsOwner(transaction: Queryable, commit: Commit): Promise<void> {
  const [found] = await transaction.query<{ xmin: string }>(sql`
    select ${xminColumn('o')} as xmin from storage.objects o
    where bucket_id = ${commit.bucket} and name = ${commit.name} for update`);
  const outcome = await tryCommit(transaction, commit, found?.xmin);
  if (typeof outcome === 'string') throw lockTimeout();
}

/** Consumes the reservation, and writes a free name or, with `replaces`, the row with that xmin. */
async function tryCommit(owner: Queryable, commit: Commit, replaces: string | undefined): Promise<Outcome> {
  const ownerUuid = asUuid(commit.ownerId);
  const metadata = JSON.stringify(commit.metadata);
  const userMetadata = jsonOrNull(commit.userMetadata);
  const write =
    replaces === undefined
      ? sql`
        insert into storage.objects (bucket_id, name, owner, owner_id, version, metadata, user_metadata)
        select ${commit.bucket}, ${commit.name}, ${ownerUuid}::uuid, ${commit.ownerId}, version,
          ${metadata}::jsonb, ${userMetadata}::jsonb
        from reserved
        returning *`
      : sql`
        update storage.objects o set version = reserved.version, metadata = ${metadata}::jsonb,
          user_metadata = ${userMetadata}::jsonb, owner = ${ownerUuid}::uuid, owner_id = ${commit.ownerId}
        from reserved
        where o.bucket_id = ${commit.bucket} and o.name = ${commit.name} and ${xminColumn('o')} = ${replaces}
        returning o.*`;
  const [row] = await owner.query<{ reserved: boolean; object: StoredObject | null }>(sql`
    with reserved as materialized (
      select version from storage.pending_blobs where version = ${commit.version} for update
    ), o as (
      ${write}
    ), consumed as (
      delete from storage.pending_blobs p using o where p.version = o.version
    )
    select exists (select from reserved) as reserved, (select ${OBJECT_JSON} from o) as object`);
  return row?.object ?? (row?.reserved === true ? 'changed' : 'expired');
}
