// Reads and writes the row of `svc_meta.stamp`: the file that the database follows, and a fingerprint of the catalog
// after the last verified run. With it a start without changes is fast.
import { createHash } from 'node:crypto';
import type { Queryable } from '../../postgres/owner-database.ts';
import { empty, raw, sql, type Sql } from '../../postgres/sql.ts';
import { statementVersions } from '../schema/live/live-statements.ts';
import { REALTIME_MESSAGES } from '../schema/rights/hosts.ts';
import { objectKey, type SchemaModel, declaredViews } from '../schema/model.ts';
import { partitionSchedule } from '../schema/partitions.ts';
import { PUBLICATION } from '../schema/publication.ts';

/** Increased when the same file may result in a different schema. Forces a full comparison after an upgrade of svc. */
export const ENGINE_VERSION = 4;

/** NOTIFY channel that makes every instance read the catalog again. */
export const SCHEMA_CHANNEL = 'svc_schema';

export type AppliedState = {
  readonly schemaHash: string;
  readonly catalogFingerprint: string;
  readonly serverVersion: number;
  readonly engineVersion: number;
  /** False while steps remain or the result of the run is not verified. */
  readonly complete: boolean;
  readonly appliedAt: Date;
};

/** Properties of a model that the fast check at start needs. */
export type ModelDigest = {
  readonly hash: string;
  readonly schemas: readonly string[];
  readonly extensions: readonly string[];
  /** Tables with a partition schedule, as `schema.table`. */
  readonly kept: readonly string[];
};

const digests = new WeakMap<SchemaModel, ModelDigest>();

/** Returns the digest of a model. Computed once per model, because models are immutable. */
export function digestModel(model: SchemaModel): ModelDigest {
  const found = digests.get(model) ?? {
    hash: createHash('sha256').update(JSON.stringify(model)).digest('hex'),
    schemas: [
      ...new Set(
        [
          ...(model.types ?? []),
          ...(model.sequences ?? []),
          ...(model.statements ?? []),
          ...model.tables,
          ...declaredViews(model),
          ...model.functions,
        ]
          .map(({ schema }) => schema)
          .filter((schema) => schema !== ''),
      ),
    ],
    extensions: (model.extensions ?? []).map(({ name }) => name),
    kept: model.tables.filter((table) => partitionSchedule(table) !== null).map(objectKey),
  };
  digests.set(model, found);
  return found;
}

export function hashModel(model: SchemaModel): string {
  return digestModel(model).hash;
}

export async function readAppliedState(session: Queryable): Promise<AppliedState | null> {
  const [row] = await session.query<AppliedState>(
    raw(`select schema_hash as "schemaHash", catalog_stamp as "catalogFingerprint", server_version as "serverVersion",
      engine_version as "engineVersion", complete, applied_at as "appliedAt" from svc_meta.stamp`),
  );
  return row ?? null;
}

export async function writeAppliedState(
  session: Queryable,
  state: Omit<AppliedState, 'engineVersion' | 'appliedAt'>,
): Promise<void> {
  await session.query(sql`
    insert into svc_meta.stamp (schema_hash, catalog_stamp, server_version, engine_version, complete)
    values (${state.schemaHash}, ${state.catalogFingerprint}, ${state.serverVersion}, ${ENGINE_VERSION},
      ${state.complete})
    on conflict (one) do update set schema_hash = excluded.schema_hash, catalog_stamp = excluded.catalog_stamp,
      server_version = excluded.server_version, engine_version = excluded.engine_version,
      complete = excluded.complete, applied_at = now()`);
}

/**
 * Marks the applied state as unverified until it is written again. Runs in the transaction that records the
 * declarations, because an interruption of a later step may leave no trace in the catalog.
 */
export async function markUnverified(session: Queryable): Promise<void> {
  await session.query(raw('update svc_meta.stamp set complete = false where complete'));
}

/** Returns true if the file, the versions and the catalog are unchanged and no steps remain. */
export async function isInSync(session: Queryable, digest: ModelDigest): Promise<boolean> {
  const state = await readAppliedState(session);
  if (!state?.complete || state.schemaHash !== digest.hash || state.engineVersion !== ENGINE_VERSION)
    return false;
  const [server] = await session.query<{ version: number }>(
    raw(`select current_setting('server_version_num')::int as version`),
  );
  if (server?.version !== state.serverVersion) return false;
  return (await readCatalogFingerprint(session, digest)) === state.catalogFingerprint;
}

/** Returns the schemas of the model and of all managed and retired objects. */
export async function readManagedSchemas(
  session: Queryable,
  { schemas }: Pick<ModelDigest, 'schemas'>,
): Promise<string[]> {
  const rows = await session.query<{ schema: string }>(
    raw(
      `select distinct split_part(substr(identity, length(kind) + 2), '.', 1) as schema from svc_meta.object
        where kind in ('table', 'type', 'view', 'function', 'sequence')
      union select definition ->> 'schema' from svc_meta.object
        where kind = 'statement' and definition ->> 'schema' <> ''`,
    ),
  );
  return [...new Set(['public', ...schemas, ...rows.map(({ schema }) => schema)])];
}

/** Arrays of oids: the server plans conditions on these much faster than joins. */
const SPACES = raw('(select oids from space)::oid[]');
const TABLES = raw('(select tables from relation)::oid[]');

/**
 * Returns a hash of the row versions of all catalog rows that the engine compares. Changes of structure, grants,
 * policies and functions change it. Data, statistics, vacuum and rolled-back DDL do not.
 */
export async function readCatalogFingerprint(session: Queryable, digest: ModelDigest): Promise<string> {
  const schemas = await readManagedSchemas(session, digest);
  const query = sql`
    with space as materialized (
      select array_agg(oid) as oids from pg_namespace where nspname = any (${schemas})
    ), managed as materialized (
      select c.oid, c.relkind from pg_class c
      where c.relnamespace = any (${SPACES}) and c.relkind in ('r', 'p', 'i', 'S', 'v')
        and not exists (select from pg_index i join pg_class m on m.oid = i.indrelid and m.relkind = 'm' where i.indexrelid = c.oid)
        ${digest.kept.length > 0 ? withoutKeptPartitions(digest.kept) : empty}
      union all select c.oid, c.relkind from pg_class c where c.oid = to_regclass('storage.objects')
    ), relation as materialized (
      select array_agg(oid) as oids, array_agg(oid) filter (where relkind in ('r', 'p', 'v')) as tables from managed
    ), rows as (
      select c.oid::int8 as id, c.xmin::text::int8 as version from pg_class c where c.oid = any ((select oids from relation)::oid[])
      union all select a.attrelid::int8 * 1600 + a.attnum, a.xmin::text::int8 from pg_attribute a where a.attnum > 0 and a.attrelid = any (${TABLES})
      union all select d.oid::int8, d.xmin::text::int8 from pg_attrdef d where d.adrelid = any (${TABLES})
      -- What a constraint has for each partition comes and goes with it.
      union all select k.oid::int8, k.xmin::text::int8 from pg_constraint k where k.conrelid = any (${TABLES}) and k.conparentid = 0
      union all select i.indexrelid::int8, i.xmin::text::int8 from pg_index i where i.indrelid = any (${TABLES})
      union all select k.oid::int8, k.xmin::text::int8 from pg_constraint k join pg_type t on t.oid = k.contypid
        where t.typnamespace = any (${SPACES})
      union all select a.attrelid::int8 * 1600 + a.attnum, a.xmin::text::int8
        from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
        where c.relnamespace = any (${SPACES}) and c.relkind = 'c'
      union all select e.oid::int8, e.xmin::text::int8 from pg_extension e
        where e.extname = any (${digest.extensions})
      union all select d.objoid::int8 * 1600 + d.objsubid, d.xmin::text::int8 from pg_description d
        where d.classoid = 'pg_class'::regclass and d.objoid = any (${TABLES})
      union all select p.oid::int8, p.xmin::text::int8 from pg_policy p where p.polrelid = any (${TABLES})
      union all select p.oid::int8, p.xmin::text::int8 from pg_policy p where p.polrelid = to_regclass(${REALTIME_MESSAGES})
      union all select t.oid::int8, t.xmin::text::int8 from pg_trigger t where (not t.tgisinternal or t.tgenabled in ('D', 'R')) and t.tgrelid = any (${TABLES})
      union all select t.oid::int8, t.xmin::text::int8 from pg_trigger t where t.tgrelid = to_regclass('auth.users') and not t.tgisinternal
      union all select p.oid::int8, p.xmin::text::int8 from pg_proc p
        where p.pronamespace = to_regnamespace('svc_meta') and p.proname ~ '^(on_update|new_user)_'
      union all select p.oid::int8, p.xmin::text::int8 from pg_proc p where p.pronamespace = any (${SPACES})
      union all select t.oid::int8, t.xmin::text::int8 from pg_type t
        where t.typnamespace = any (${SPACES}) and t.typtype in ('e', 'd', 'r')
      union all select e.oid::int8, e.xmin::text::int8 from pg_enum e join pg_type t on t.oid = e.enumtypid
        where t.typnamespace = any (${SPACES})
      union all select r.oid::int8, r.xmin::text::int8 from pg_rewrite r where r.ev_class = any (${TABLES})
      union all select d.objoid::int8 * 1600 + d.objsubid, d.xmin::text::int8 from pg_description d
        where d.classoid = 'pg_class'::regclass and d.objoid in (select oid from managed where relkind in ('v', 'S'))
      -- A refresh rewrites the rows of a materialized view, so their contents are hashed instead of their versions.
      union all select c.oid::int8, hashtextextended(concat_ws(' ', c.relname, c.relnamespace, c.relowner,
        c.relispopulated, c.relacl, r.oid,
          (select string_agg(concat_ws(' ', x.relname, x.relam, x.reloptions, i.indisunique, i.indisvalid, i.indkey,
            i.indclass, i.indoption, i.indcollation, i.indexprs, i.indpred), ';' order by x.oid)
            from pg_index i join pg_class x on x.oid = i.indexrelid where i.indrelid = c.oid),
          (select string_agg(concat(d.objsubid, d.description), ';' order by d.objsubid) from pg_description d where d.classoid = 'pg_class'::regclass and d.objoid = c.oid)), 0)
        from pg_class c join pg_rewrite r on r.ev_class = c.oid
        where c.relnamespace = any (${SPACES}) and c.relkind = 'm'
      union all select p.oid::int8, p.xmin::text::int8 from pg_publication p where p.pubname = ${PUBLICATION}
      union all select m.oid::int8, m.xmin::text::int8 from pg_publication_rel m join pg_publication p on p.oid = m.prpubid
        where p.pubname = ${PUBLICATION} and m.prrelid = any (${TABLES})
      union all select n.oid::int8, n.xmin::text::int8 from pg_namespace n where n.oid = any (${SPACES})
      union all (${statementVersions(SPACES)})
    )
    select count(*) || ':' || coalesce(sum(hashint8extended(id, version)), 0) as fingerprint from rows`;
  const [row] = await session.query<{ fingerprint: string }>(query, 'catalog fingerprint');
  return row?.fingerprint ?? '';
}

/** Returns a condition that excludes the partitions of a schedule, and their indexes. */
function withoutKeptPartitions(kept: readonly string[]): Sql {
  return sql`and not (c.relispartition and exists (
    select from pg_class r join pg_namespace s on s.oid = r.relnamespace
    where s.nspname || '.' || r.relname = any (${[...kept]})
      and r.oid = case c.relkind
        when 'i' then (select i.indrelid from pg_index i where i.indexrelid = pg_partition_root(c.oid))
        else pg_partition_root(c.oid) end))`;
}

/**
 * Makes every instance read the catalog again. Connected instances are notified; others compare `readSchemaVersion`
 * when they connect.
 */
export async function announceSchema(session: Queryable): Promise<void> {
  await session.query(sql`
    with touched as (update svc_meta.stamp set complete = complete)
    select pg_notify(${SCHEMA_CHANNEL}, '')`);
}

/** Returns a token that changes with each `announceSchema`. Cheap to read. */
export async function readSchemaVersion(db: Queryable): Promise<string> {
  const [row] = await db.query<{ version: string }>(
    raw(`select xmin::text || ctid::text as version from svc_meta.stamp`),
  );
  return row?.version ?? '';
}
