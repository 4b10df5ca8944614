// Files: read from the source, checked, and stored here under their old ids. Each is done by itself, so that a run
// that was interrupted goes on where it ended.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Config } from '../config/config.ts';
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import type { OwnerDatabase, Queryable } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';
import type { Backend } from '../storage/backend/backend.ts';
import { verifyLocation } from '../storage/backend/location.ts';
import { syncBuckets } from '../storage/objects/bucket.ts';
import { abandonVersion, commitAsOwner, reserveVersion } from '../storage/objects/commit.ts';
import { isObjectPath } from '../storage/objects/object-path.ts';
import { createBackend } from '../storage/storage.ts';
import { requireOpen } from './copy.ts';
import type { Connected } from '../postgres/bulk/one-transaction.ts';
import type { BytesSource, Refusal, WantedFile } from './bytes/bytes-source.ts';
import { Checksum } from './bytes/checksum.ts';
import { readSource } from './source.ts';
import { reportProgress } from '../lib/progress.ts';

export type FileOptions = {
  readonly source: DatabaseAddress;
  readonly owner: OwnerDatabase;
  readonly config: Config;
  readonly bytes: BytesSource;
};

export type FileResult = {
  readonly copied: number;
  readonly removed: number;
  readonly unchanged: number;
  /** Files that could not be copied, by name. */
  readonly missing: ReadonlyArray<{ readonly name: string; readonly why: string }>;
  /** Names of copied files that no checksum of the source verifies. */
  readonly unproven: readonly string[];
};

type SourceObject = {
  readonly id: string;
  readonly bucket_id: string;
  readonly name: string;
  readonly owner_id: string | null;
  readonly metadata: Readonly<Record<string, unknown>> | null;
  readonly user_metadata: Record<string, unknown> | null;
  readonly created_at: string;
  readonly updated_at: string;
  readonly version: string | null;
  readonly digest: string;
};

/** Columns that a return to the source needs. Both sides have them. */
export const FILE_COLUMNS = [
  'id',
  'bucket_id',
  'name',
  'owner_id',
  'metadata',
  'user_metadata',
  'created_at',
  'updated_at',
];

/** Through JSON, because older projects lack some of the columns. */
export const LIVE_FILES = `
  select row ->> 'id', row ->> 'bucket_id', row ->> 'name', coalesce(row ->> 'owner_id', row ->> 'owner'),
    row -> 'metadata' ->> 'eTag', row -> 'metadata' ->> 'size'
  from (select to_jsonb(o) as row from storage.objects o) o
  where row ->> 'archived_at' is null and row ->> 'is_delete_marker' is distinct from 'true'`;

const AT_ONCE = 8;
const TRIES = 3;
/** Before the second try; before the third four times as long. */
const RETRY_MS = 200;
/** The next run restarts a transfer that takes longer. */
const PENDING_MS = 24 * 60 * 60_000;

export async function copyFiles({ source, owner, config, bytes }: FileOptions): Promise<FileResult> {
  const backend = createBackend(config);
  await verifyLocation(owner, backend);
  await backend.check();
  await syncBuckets(owner, config);
  const objects = await readSource(source, async (from) => {
    await requireOpen(from, owner);
    return await readObjects(from, owner);
  });
  const known = await readKnown(owner);
  const gone = goneFrom(objects, known);
  await forget(owner, gone);
  const waiting = objects.filter(({ id, digest }) => known.get(id) !== digest).reverse();
  const unchanged = objects.length - waiting.length;
  const { missing, unproven } = await copyAll(waiting, { owner, backend, bytes });
  const copied = objects.length - unchanged - missing.length;
  return {
    copied,
    removed: gone.length,
    unchanged,
    missing: missing.sort(byName),
    unproven: unproven.sort(),
  };
}

type Missing = FileResult['missing'][number];

const byName = (a: Missing, b: Missing): number => (a.name < b.name ? -1 : 1);

/**
 * Copies files, starting at the end of the list. An error that affects every file ends the run after the transfers in
 * progress.
 */
async function copyAll(
  waiting: SourceObject[],
  sides: Sides,
): Promise<{ readonly missing: Missing[]; readonly unproven: string[] }> {
  const missing: Missing[] = [];
  const unproven: string[] = [];
  const total = waiting.length;
  let done = 0;
  const work = async (): Promise<void> => {
    for (let next = waiting.pop(); next; next = waiting.pop()) {
      try {
        const outcome = await copyFile(next, sides);
        done += 1;
        reportProgress('copying files', done, total);
        const name = `${next.bucket_id}/${next.name}`;
        if (typeof outcome === 'object') missing.push({ name, why: outcome.why });
        else if (outcome === 'unproven') unproven.push(name);
      } catch (error) {
        waiting.length = 0;
        throw error;
      }
    }
  };
  const workers = await Promise.allSettled(Array.from({ length: AT_ONCE }, work));
  for (const worker of workers) if (worker.status === 'rejected') throw worker.reason;
  return { missing, unproven };
}

/** Objects of the source that have a bucket here and are not as they were last brought. */
export async function countFileDifferences(source: Connected, target: Queryable): Promise<number> {
  const objects = await readObjects(source, target);
  const known = await readKnown(target);
  const different = objects.filter(({ id, digest }) => known.get(id) !== digest).length;
  return different + goneFrom(objects, known).length;
}

function goneFrom(objects: readonly SourceObject[], known: ReadonlyMap<string, string>): string[] {
  const there = new Set(objects.map(({ id }) => id));
  return [...known.keys()].filter((id) => !there.has(id));
}

async function readObjects(source: Connected, target: Queryable): Promise<SourceObject[]> {
  const buckets = await target.query<{ id: string }>(sql`select id from storage.buckets`);
  return await source.query<SourceObject>(sql`
    select row ->> 'id' as id, row ->> 'bucket_id' as bucket_id, row ->> 'name' as name,
      coalesce(row ->> 'owner_id', row ->> 'owner') as owner_id, row -> 'metadata' as metadata,
      row -> 'user_metadata' as user_metadata, row ->> 'created_at' as created_at, row ->> 'updated_at' as updated_at,
      row ->> 'version' as version, md5((row - 'last_accessed_at')::text) as digest
    from (select to_jsonb(o) as row from storage.objects o where bucket_id = any (${buckets.map(({ id }) => id)})) o
    where row ->> 'archived_at' is null and row ->> 'is_delete_marker' is distinct from 'true'
    order by 2, 3`);
}

async function readKnown(target: Queryable): Promise<ReadonlyMap<string, string>> {
  const rows = await target.query<{ id: string; digest: string }>(sql`
    select id, encode(digest, 'hex') as digest from svc_meta.import_row where kind = 'object'`);
  return new Map(rows.map(({ id, digest }) => [id, digest]));
}

async function forget(owner: OwnerDatabase, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await owner.transaction(async (transaction) => {
    await transaction.query(sql`delete from storage.objects where id::text = any (${ids})`);
    await transaction.query(sql`delete from svc_meta.import_row where kind = 'object' and id = any (${ids})`);
  });
}

type Sides = { readonly owner: OwnerDatabase; readonly backend: Backend; readonly bytes: BytesSource };

/** Proof that the bytes equal the source, or the reason why they are missing. */
type Outcome = 'equal' | 'unproven' | Refusal;

async function copyFile(object: SourceObject, sides: Sides): Promise<Outcome> {
  if (!isObjectPath(object.name))
    return { why: 'its name has characters that are not possible here', isFinal: true };
  if (await isTaken(object, sides.owner))
    return { why: 'the target has another file of this name', isFinal: true };
  for (let attempt = 1; ; attempt++) {
    const outcome = await transfer(object, sides);
    if (typeof outcome === 'string' || outcome.isFinal || attempt === TRIES) return outcome;
    await delay(RETRY_MS * 4 ** (attempt - 1));
  }
}

async function isTaken({ id, bucket_id, name }: SourceObject, owner: OwnerDatabase): Promise<boolean> {
  const row = await owner.maybeOne(sql`
    select from storage.objects o where bucket_id = ${bucket_id} and name = ${name} and id::text <> ${id}
      and not exists (select from svc_meta.import_row r where r.kind = 'object' and r.id = o.id::text)`);
  return row !== undefined;
}

async function transfer(object: SourceObject, { owner, backend, bytes: source }: Sides): Promise<Outcome> {
  const address = { bucket: object.bucket_id, name: object.name };
  const version = randomUUID();
  const size = numberOr(object.metadata?.['size'], 0);
  await reserveVersion(owner, version, address, new Date(Date.now() + PENDING_MS));
  const refuse = async (refusal: Refusal): Promise<Refusal> => {
    await abandonVersion(owner, version);
    return refusal;
  };
  const file = { bucket: object.bucket_id, name: object.name, version: object.version };
  const body = await source.open(file, 0).catch(async (error: unknown) => {
    await abandonVersion(owner, version);
    throw error;
  });
  if ('why' in body) return await refuse(body);
  const checksum = new Checksum(object.metadata?.['eTag'], size);
  let bytes = 0;
  let isWhole = false;
  const incoming = inOne(file, body, source);
  async function* counted(): AsyncGenerator<Buffer> {
    for await (const chunk of incoming) {
      const buffer = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      checksum.update(buffer);
      bytes += buffer.length;
      yield buffer;
    }
    isWhole = true;
  }
  try {
    await backend.write(version, counted(), size);
  } catch (error) {
    const failure = await refuse({ why: 'the transfer broke off', isFinal: false });
    // All bytes came: it is the store here that failed, and it would with every file.
    if (isWhole) throw error;
    return failure;
  }
  const { tag: eTag, verdict } = checksum.finish();
  const wanted = numberOr(object.metadata?.['size'], bytes);
  if (wanted !== bytes)
    return await refuse({ why: `${bytes} bytes came instead of ${wanted}`, isFinal: false });
  if (verdict === 'different')
    return await refuse({ why: 'the bytes do not match the checksum', isFinal: false });
  await commit(object, { owner, version, bytes, eTag });
  return verdict;
}

/** Resumes an interrupted transfer at its last byte, as long as each attempt makes progress. */
async function* inOne(
  file: WantedFile,
  first: AsyncIterable<Uint8Array>,
  source: BytesSource,
): AsyncGenerator<Uint8Array> {
  let came = 0;
  for (let part = first; ;) {
    const before = came;
    try {
      for await (const chunk of part) {
        came += chunk.length;
        yield chunk;
      }
      return;
    } catch (error) {
      const rest = came > before ? await source.open(file, came) : undefined;
      if (rest === undefined || 'why' in rest) throw error;
      part = rest;
    }
  }
}

type Stored = {
  readonly owner: OwnerDatabase;
  readonly version: string;
  readonly bytes: number;
  readonly eTag: string;
};

async function commit(object: SourceObject, { owner, version, bytes, eTag }: Stored): Promise<void> {
  const { id, bucket_id: bucket, name, metadata } = object;
  await owner.transaction(async (transaction) => {
    // It may have had another name, and its name another file.
    await transaction.query(sql`
      delete from storage.objects where id::text = ${id} or bucket_id = ${bucket} and name = ${name}`);
    await commitAsOwner(transaction, {
      bucket,
      name,
      version,
      ownerId: object.owner_id,
      userMetadata: object.user_metadata,
      metadata: {
        eTag: textOr(metadata?.['eTag'], eTag),
        size: bytes,
        mimetype: textOr(metadata?.['mimetype'], 'application/octet-stream'),
        cacheControl: textOr(metadata?.['cacheControl'], 'max-age=3600'),
        lastModified: textOr(metadata?.['lastModified'], new Date(object.updated_at).toISOString()),
        contentLength: bytes,
        httpStatusCode: 200,
      },
    });
    await transaction.query(sql`
      update storage.objects set id = ${id}, created_at = ${object.created_at}, updated_at = ${object.updated_at}
      where bucket_id = ${bucket} and name = ${name}`);
    await transaction.query(sql`
      insert into svc_meta.import_row (kind, id, digest) values ('object', ${id}, decode(${object.digest}, 'hex'))
      on conflict (kind, id) do update set digest = excluded.digest`);
  });
}

const textOr = (value: unknown, otherwise: string): string => (typeof value === 'string' ? value : otherwise);

const numberOr = (value: unknown, otherwise: number): number => {
  const number = Number(value ?? Number.NaN);
  return Number.isFinite(number) ? number : otherwise;
};
