// The orphan scan: finds bytes that no row refers to, left by restored backups, late answers of a store or manual
// changes. Deletes only old ones, and only few unless forced.
import type { Log } from '../../log/log.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import type { Backend, ListedBlob } from '../backend/backend.ts';

export type OrphanOptions = {
  readonly owner: OwnerDatabase;
  readonly backend: Backend;
  readonly log: Log;
  /** Younger blobs may belong to an upload under way. */
  readonly minAgeMs?: number | undefined;
  /** Only report. */
  readonly dryRun?: boolean | undefined;
  /** Delete even when much of the store looks orphaned. */
  readonly force?: boolean | undefined;
};

export type OrphanReport = {
  readonly blobs: number;
  readonly orphans: number;
  readonly deleted: number;
  /** Objects without bytes. Their rows are never deleted as a repair. */
  readonly missing: readonly string[];
  /** True if nothing was deleted because there were too many orphans. */
  readonly refused: boolean;
};

const MIN_AGE_MS = 25 * 60 * 60_000;
const BATCH = 500;
/** Above both, the database is more likely an old backup than the store full of orphans. */
const SUSPICIOUS_COUNT = 100;
const SUSPICIOUS_SHARE = 0.05;

/** Orphans by version: everything, or only the staged parts of a blob in use. */
type Orphans = Map<string, 'whole' | 'staged'>;

export async function sweepOrphans(options: OrphanOptions): Promise<OrphanReport> {
  const { owner, backend, log } = options;
  const startedAt = new Date();
  const oldest = startedAt.getTime() - (options.minAgeMs ?? MIN_AGE_MS);
  const orphans: Orphans = new Map();
  const present = new Set<string>();
  let blobs = 0;
  for await (const batch of batches(backend.list(), BATCH)) {
    blobs += batch.length;
    for (const blob of batch) if (!blob.staged) present.add(blob.version);
    for (const [version, part] of await findOrphans(owner, batch, oldest)) orphans.set(version, part);
  }
  const missing = await objectsWithout(owner, present, startedAt);
  if (missing.length > 0) log.error({ objects: missing.length }, 'objects have no bytes');
  const suspicious = orphans.size > SUSPICIOUS_COUNT && orphans.size > blobs * SUSPICIOUS_SHARE;
  const refused = suspicious && options.force !== true;
  if (refused) log.error({ orphans: orphans.size, blobs }, 'too many orphaned blobs to delete unasked');
  if (refused || options.dryRun || (await isHeld(owner)))
    return { blobs, orphans: orphans.size, deleted: 0, missing, refused };

  const whole = [...orphans].filter(([, part]) => part === 'whole').map(([version]) => version);
  const failures = await backend.remove(whole.map((version) => ({ version, staged: true })));
  for (const [version, part] of orphans) if (part === 'staged') await backend.removeStaged(version);
  const deleted = orphans.size - failures.size;
  if (deleted > 0) log.info({ deleted }, 'deleted orphaned blobs');
  return { blobs, orphans: orphans.size, deleted, missing, refused };
}

/** A running backup relies on the files that it has listed. A restored database does not know newer files. */
async function isHeld(owner: OwnerDatabase): Promise<boolean> {
  const holds = await owner.query(sql`
    select from storage.deletion_hold where expires_at > now()
    union all
    select from svc_meta.restore where sweep_from > now()`);
  return holds.length > 0;
}

async function findOrphans(
  owner: OwnerDatabase,
  batch: readonly ListedBlob[],
  oldest: number,
): Promise<Orphans> {
  const old = batch.filter((blob) => blob.modifiedAt.getTime() <= oldest);
  const rows = await owner.query<{ version: string; committed: boolean }>(sql`
    with listed as (select distinct unnest(${old.map((blob) => blob.version)}::text[]) as version)
    select version, true as committed from storage.objects where version in (select version from listed)
    union all
    select version, false from storage.pending_blobs where version in (select version from listed)
    union all
    select version, false from storage.blob_gc where version in (select version from listed)`);
  const known = new Map(rows.map((row) => [row.version, row.committed]));
  const orphans: Orphans = new Map();
  for (const blob of old) {
    const committed = known.get(blob.version);
    if (committed === undefined) orphans.set(blob.version, 'whole');
    else if (committed && blob.staged) orphans.set(blob.version, 'staged');
  }
  return orphans;
}

async function objectsWithout(
  owner: OwnerDatabase,
  present: ReadonlySet<string>,
  startedAt: Date,
): Promise<string[]> {
  const missing: string[] = [];
  let after = '';
  for (;;) {
    const rows = await owner.query<{ version: string; path: string }>(sql`
      select version, bucket_id || '/' || name as path from storage.objects
      where version > ${after} and updated_at < ${startedAt} order by version limit ${BATCH}`);
    for (const row of rows) if (!present.has(row.version)) missing.push(row.path);
    after = rows.at(-1)?.version ?? '';
    if (rows.length < BATCH) return missing;
  }
}

async function* batches<T>(source: AsyncIterable<T>, size: number): AsyncIterable<T[]> {
  let batch: T[] = [];
  for await (const item of source) {
    if (batch.push(item) < size) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
