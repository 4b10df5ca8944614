// Buckets as svc.yaml declares them. Requests read them from the configuration; `storage.buckets` is a copy for
// policies, foreign keys and the bucket listing.
import type { Bucket, Config } from '../../config/config.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { bucketNotFound } from '../problem.ts';
import { isFolderPlaceholder } from './object-path.ts';

export type UploadRules = { readonly maxBytes: number; readonly types: readonly string[] };

/** Returns the limits of an upload with this name. A folder placeholder is empty and of any type. */
export function uploadRules(bucket: Bucket, name: string): UploadRules {
  return isFolderPlaceholder(name)
    ? { maxBytes: 0, types: [] }
    : { maxBytes: bucket.maxSizeBytes, types: bucket.types };
}

export function findBucket(config: Config, id: string): Bucket | undefined {
  return config.storage.find(({ name }) => name === id);
}

export function requireBucket(config: Config, id: string): Bucket {
  const bucket = findBucket(config, id);
  if (!bucket) throw bucketNotFound();
  return bucket;
}

/** Rejects a private bucket with the error of a missing one. */
export function requirePublicBucket(config: Config, id: string): Bucket {
  const bucket = requireBucket(config, id);
  if (!bucket.public) throw bucketNotFound();
  return bucket;
}

/**
 * Makes `storage.buckets` equal to the file, at start and at each reload, after the migration. A bucket removed from
 * the file keeps its row while objects refer to it.
 */
export async function syncBuckets(owner: OwnerDatabase, config: Config): Promise<void> {
  const wanted = JSON.stringify(
    config.storage.map((bucket) => ({
      id: bucket.name,
      public: bucket.public,
      file_size_limit: bucket.maxSizeBytes,
      allowed_mime_types: bucket.types.length > 0 ? bucket.types : null,
    })),
  );
  await owner.transaction(async (transaction) => {
    await transaction.query(sql`
      insert into storage.buckets (id, name, public, file_size_limit, allowed_mime_types)
      select id, id, public, file_size_limit, allowed_mime_types
      from jsonb_to_recordset(${wanted}::jsonb)
        as wanted (id text, public boolean, file_size_limit bigint, allowed_mime_types text[])
      on conflict (id) do update set
        public = excluded.public,
        file_size_limit = excluded.file_size_limit,
        allowed_mime_types = excluded.allowed_mime_types,
        updated_at = now()
      where (storage.buckets.public, storage.buckets.file_size_limit, storage.buckets.allowed_mime_types)
        is distinct from (excluded.public, excluded.file_size_limit, excluded.allowed_mime_types)`);
    await transaction.query(sql`
      delete from storage.buckets bucket
      where bucket.id <> all (${config.storage.map((bucket) => bucket.name)}::text[])
        and not exists (select from storage.objects where bucket_id = bucket.id)`);
  });
}
