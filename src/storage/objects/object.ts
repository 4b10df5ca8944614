// Objects as rows: what one looks like, how the owner finds and commits it, and what is rehearsed as the caller
// before the owner acts. Rehearsals roll back: permission is theirs, the change is ours, and it holds only for the
// very row that the rehearsal saw.
import type { CallerPool, CallerSettings } from '../../postgres/pool/caller-pool.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import type { OwnerDatabase, Queryable } from '../../postgres/owner-database.ts';
import { isoTimestamp, raw, sql, type Sql, type SqlValue } from '../../postgres/sql.ts';
import type { WireStatement, WireValue } from '../../postgres/wire/wire.ts';
import { isHeaderValue } from './content-type.ts';
import type { Address } from './object-path.ts';
import { alreadyExists, lockTimeout } from '../problem.ts';
import { setTimeout as delay } from 'node:timers/promises';

/** What the server knows of an object's bytes; the `metadata` column. */
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

export type StoredObject = {
  readonly id: string;
  readonly bucket_id: string;
  readonly name: string;
  readonly owner: string | null;
  readonly owner_id: string | null;
  readonly version: string;
  readonly metadata: Readonly<Record<string, unknown>> | null;
  readonly user_metadata: Readonly<Record<string, unknown>> | null;
  readonly created_at: string;
  readonly updated_at: string;
  readonly last_accessed_at: string;
};

/** One object as JSON text, whitelisted: a column that is not named here is not shown. */
export const OBJECT_JSON: Sql = sql`json_build_object(
  'name', o.name, 'bucket_id', o.bucket_id, 'owner', o.owner, 'owner_id', o.owner_id, 'version', o.version, 'id', o.id,
  'updated_at', ${isoTimestamp('o.updated_at')}, 'created_at', ${isoTimestamp('o.created_at')},
  'last_accessed_at', ${isoTimestamp('o.last_accessed_at')}, 'metadata', o.metadata, 'user_metadata', o.user_metadata)`;

/** The row, seen by the owner: for public and signed reads, where no policy is asked. */
export async function findObject(
  owner: OwnerDatabase,
  { bucket, name }: Address,
): Promise<StoredObject | undefined> {
  const row = await owner.maybeOne<{ object: StoredObject }>(
    sql`select ${OBJECT_JSON} as object from storage.objects o where o.bucket_id = ${bucket} and o.name = ${name}`,
  );
  return row?.object;
}

/** The row, seen by the caller: undefined when there is none or a policy hides it. */
export async function findObjectAs(
  callers: CallerPool,
  caller: CallerSettings,
  { bucket, name }: Address,
): Promise<StoredObject | undefined> {
  const [text] = await readAs(
    callers,
    caller,
    sql`select ${OBJECT_JSON} from storage.objects o where o.bucket_id = ${bucket} and o.name = ${name}`,
  );
  return text === undefined ? undefined : parseObject(text);
}

/** First column of each row of a read-only statement as the caller. */
export async function readAs(callers: CallerPool, caller: CallerSettings, statement: Sql): Promise<string[]> {
  const [result] = await callers.run(caller, [toWire(statement)], { readOnly: true });
  return (result?.rows ?? []).map(([cell]) => cell?.toString('utf8') ?? '');
}

const BEGIN: WireStatement = { text: 'begin', values: [] };
const ROLLBACK: WireStatement = { text: 'rollback', values: [] };

/**
 * Runs a write as the caller and undoes it, in one round trip; throws what PostgreSQL refuses. Deferred triggers
 * are not reached: one of them is there to refuse exactly these writes when somebody commits them.
 */
export async function rehearse(
  callers: CallerPool,
  caller: CallerSettings,
  statement: Sql,
): Promise<string[]> {
  // A name that another transaction is just writing is waited for, but not for long.
  const settings = { ...caller, extra: [...(caller.extra ?? []), ['lock_timeout', '5s'] as const] };
  const results = await callers.run(settings, [BEGIN, toWire(statement), ROLLBACK]);
  return (results[1]?.rows ?? []).map(([cell]) => cell?.toString('utf8') ?? '');
}

export type Draft = Address & {
  readonly ownerId: string | null;
  /** What policies may look at before a byte is taken. */
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly userMetadata: Readonly<Record<string, unknown>> | null;
};

/**
 * One state of a row: it changes with whatever is changed in it, the owner too. Written here in code as the name of
 * the table's alias.
 */
export function markOf(alias: string): Sql {
  return raw(`${alias}.xmin::text`);
}

/**
 * May the caller put an object there? Refusals: no policy allows it, or without `upsert` the name is taken. Answers
 * with the mark of the object that would be replaced; undefined when there is none.
 */
export async function rehearseUpload(
  callers: CallerPool,
  caller: CallerSettings,
  draft: Draft,
  upsert: boolean,
): Promise<string | undefined> {
  const insert = sql`
    insert into storage.objects (bucket_id, name, owner, owner_id, version, metadata, user_metadata)
    values (${draft.bucket}, ${draft.name}, ${asUuid(draft.ownerId)}::uuid, ${draft.ownerId}, '1',
      ${JSON.stringify(draft.metadata)}::jsonb, ${jsonOrNull(draft.userMetadata)}::jsonb)`;
  const [mark = ''] = await rehearse(
    callers,
    caller,
    upsert
      ? sql`
        with seen as materialized (
          select ${markOf('o')} as mark from storage.objects o
          where o.bucket_id = ${draft.bucket} and o.name = ${draft.name}
        ), put as (
          ${insert} on conflict (bucket_id, name) do update set
            version = excluded.version, metadata = excluded.metadata, user_metadata = excluded.user_metadata,
            owner = excluded.owner, owner_id = excluded.owner_id
          returning id
        )
        select (select mark from seen) from put`
      : insert,
  );
  return mark === '' ? undefined : mark;
}

export type Commit = Address & {
  readonly version: string;
  readonly ownerId: string | null;
  readonly metadata: FileMetadata;
  readonly userMetadata: Readonly<Record<string, unknown>> | null;
};

type Outcome =
  | { readonly kind: 'stored'; readonly object: StoredObject }
  /** The sweeper has condemned the version, and nothing may point at it. */
  | { readonly kind: 'expired' }
  /** What is there is not what was expected. */
  | { readonly kind: 'changed' };

/**
 * The moment an upload becomes an object. It consumes the pending row, and acts only on what its caller may act on:
 * a free name, or with `replaces` the object in exactly that state.
 */
async function commitObject(
  owner: Queryable,
  commit: Commit,
  replaces: string | undefined,
): Promise<Outcome> {
  const ownerUuid = asUuid(commit.ownerId);
  const metadata = JSON.stringify(commit.metadata);
  const userMetadata = jsonOrNull(commit.userMetadata);
  const change =
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
        where o.bucket_id = ${commit.bucket} and o.name = ${commit.name} and ${markOf('o')} = ${replaces}
        returning o.*`;
  const [row] = await owner.query<{ reserved: boolean; object: StoredObject | null }>(sql`
    with reserved as materialized (
      select version from storage.pending_blobs where version = ${commit.version} for update
    ), o as (
      ${change}
    ), consumed as (
      delete from storage.pending_blobs p using o where p.version = o.version
    )
    select exists (select from reserved) as reserved, (select ${OBJECT_JSON} from o) as object`);
  if (row?.object) return { kind: 'stored', object: row.object };
  return { kind: row?.reserved === true ? 'changed' : 'expired' };
}

/** Each turn that is lost is one that somebody else's upload of the same name has won. */
const COMMIT_TURNS = 50;
const TURN_PAUSE_MS = 20;

/**
 * Asks the policies once more, now that everything about the object is known and time has passed, and commits what
 * they allow. When another writer comes in between they are asked again about what that one left. Undefined when the
 * reservation has expired.
 */
export async function commitAs(
  { callers, owner }: { readonly callers: CallerPool; readonly owner: Queryable },
  caller: CallerSettings,
  commit: Commit,
  upsert: boolean,
): Promise<StoredObject | undefined> {
  for (let turn = 0; turn < COMMIT_TURNS; turn++) {
    const replaces = await rehearseUpload(callers, caller, commit, upsert);
    const outcome = await commitObject(owner, commit, replaces).catch((error: unknown): Outcome => {
      if (!isDatabaseError(error, 'unique_violation')) throw error;
      // A plain upload that lost a race for its name is refused.
      if (!upsert) throw alreadyExists();
      return { kind: 'changed' };
    });
    if (outcome.kind === 'stored') return outcome.object;
    if (outcome.kind === 'expired') return undefined;
    await delay(Math.random() * TURN_PAUSE_MS);
  }
  throw lockTimeout();
}

/**
 * Announces a version before its first byte is stored. It need not wait for the database's disk: what a crash of
 * the database could lose with it is an upload that was not answered, and its bytes are found by listing them.
 */
export async function reserveVersion(
  owner: Queryable,
  version: string,
  { bucket, name }: Address,
  expiresAt: Date,
): Promise<void> {
  await owner.query(sql`
    with unhurried as (select set_config('synchronous_commit', 'off', true))
    insert into storage.pending_blobs (version, bucket_id, name, expires_at)
    select ${version}, ${bucket}, ${name}, ${expiresAt}::timestamptz from unhurried`);
}

/** Gives a version up: its bytes, whole or partial, go the way of all deleted bytes. */
export async function abandonVersion(owner: Queryable, version: string): Promise<void> {
  await owner.query(sql`
    with given_up as (delete from storage.pending_blobs where version = ${version} returning *)
    insert into storage.blob_gc (version, bucket_id, name, reason, queued_at)
    select version, bucket_id, name, 'abandoned', 'epoch' from given_up
    on conflict (version) do nothing`);
}

export function asUuid(ownerId: string | null): string | null {
  return ownerId !== null && /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i.test(ownerId) ? ownerId : null;
}

/** The facts a download needs, whatever wrote the row. */
export function fileFacts(object: StoredObject): {
  size: number;
  contentType: string;
  cacheControl: string;
  etag: string;
  lastModified: Date;
  contentEncoding: string | undefined;
  robots: string | undefined;
} {
  const { metadata } = object;
  const size = metadata?.['size'];
  return {
    size: typeof size === 'number' ? size : 0,
    contentType: text(metadata?.['mimetype']) ?? 'application/octet-stream',
    cacheControl: text(metadata?.['cacheControl']) ?? 'no-cache',
    etag: text(metadata?.['eTag']) ?? `"${object.version}"`,
    lastModified: new Date(text(metadata?.['lastModified']) ?? object.updated_at),
    contentEncoding: text(metadata?.['contentEncoding']),
    robots: text(metadata?.['xRobotsTag']),
  };
}

/** What PostgreSQL built from `OBJECT_JSON` has this shape by construction. */
function parseObject(json: string): StoredObject {
  return JSON.parse(json) as StoredObject;
}

export function jsonOrNull(value: unknown): string | null {
  return value === null || value === undefined ? null : JSON.stringify(value);
}

function text(value: unknown): string | undefined {
  // These become headers, and the table can be written with SQL.
  return typeof value === 'string' && value !== '' && isHeaderValue(value) ? value : undefined;
}

function toWire(statement: Sql): WireStatement {
  const { text: statementText, values } = statement.compile();
  return { text: statementText, values: values.map(toWireValue) };
}

function toWireValue(value: SqlValue): WireValue {
  if (value === null || typeof value === 'string' || Buffer.isBuffer(value)) return value;
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value)) {
    const items = value.map((item) => `"${String(item).replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`);
    return `{${items.join(',')}}`;
  }
  return String(value);
}
