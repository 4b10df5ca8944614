// The row of `svc_meta.stamp`: which file the database follows, and a fingerprint of the catalog as the last verified
// run left it. Makes an unchanged start cheap.
import { createHash } from 'node:crypto';
import type { Queryable } from '../../postgres/owner-database.ts';
import { raw, sql } from '../../postgres/sql.ts';
import { versionsOfStatements } from '../schema/live/live-statements.ts';
import { REALTIME_MESSAGES } from '../schema/rights/hosts.ts';
import { keyOf, type SchemaModel, viewsOf } from '../schema/model.ts';
import { keptOf } from '../schema/partitions.ts';
import { PUBLICATION } from '../schema/publication.ts';

/** Raised when the same file may lead to another database; forces one full comparison after an upgrade. */
export const ENGINE_VERSION = 4;

/** Every instance listens here, and reads the catalog again when it is notified. */
export const SCHEMA_CHANNEL = 'svc_schema';

export type AppliedState = {
  readonly schemaHash: string;
  readonly catalogFingerprint: string;
  readonly serverVersion: number;
  readonly engineVersion: number;
  /** False while steps are left, or the run that wrote it has not verified its result. */
  readonly complete: boolean;
  readonly appliedAt: Date;
};

/** What the cheap check of a start asks of a model. */
export type ModelDigest = {
  readonly hash: string;
  readonly schemas: readonly string[];
  readonly extensions: readonly string[];
  /** Tables whose partitions come and go by time, by `schema.table`. */
  readonly kept: readonly string[];
};

const digests = new WeakMap<SchemaModel, ModelDigest>();

/** Models are immutable, so each is serialised for its hash only once. */
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
          ...viewsOf(model),
          ...model.functions,
        ]
          .map(({ schema }) => schema)
          .filter((schema) => schema !== ''),
      ),
    ],
    extensions: (model.extensions ?? []).map(({ name }) => name),
    kept: model.tables.filter((table) => keptOf(table) !== null).map(keyOf),
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
    values (${state.schemaHash}, ${state.catalogFingerprint}, ${state.serverVersion}, ${ENGINE_VERSION}, ${state.complete})
    on conflict (one) do update set schema_hash = excluded.schema_hash, catalog_stamp = excluded.catalog_stamp,
      server_version = excluded.server_version, engine_version = excluded.engine_version,
      complete = excluded.complete, applied_at = now()`);
}

/**
 * What is recorded has been applied but not verified: nothing counts as proven until the state is written again. Part of
 * the transaction that records the declarations, because a step after it may be interrupted without a trace in the
 * catalog.
 */
export async function markUnverified(session: Queryable): Promise<void> {
  await session.query(raw('update svc_meta.stamp set complete = false where complete'));
}

/** The cheap check of a start: same file, same versions, same catalog, nothing left over. */
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

/** The schemas of the model, and those of everything that is or was managed. */
export async function readManagedSchemas(
  session: Queryable,
  { schemas }: Pick<ModelDigest, 'schemas'>,
): Promise<string[]> {
  const rows = await session.query<{ schema: string }>(
    raw(
      `select distinct split_part(substr(identity, length(kind) + 2), '.', 1) as schema from svc_meta.object where kind in ('table', 'type', 'view', 'function', 'sequence')
      union select definition ->> 'schema' from svc_meta.object where kind = 'statement' and definition ->> 'schema' <> ''`,
    ),
  );
  return [...new Set(['public', ...schemas, ...rows.map(({ schema }) => schema)])];
}

/**
 * One number over the row versions of everything the engine compares. Data, statistics, vacuum and rolled-back
 * DDL leave it alone; any real change of structure, grants, policies or functions changes it.
 */
export async function readCatalogFingerprint(session: Queryable, digest: ModelDigest): Promise<string> {
  const schemas = await readManagedSchemas(session, digest);
  const [row] = await session.query<{ fingerprint: string }>(sql`
    with managed as materialized (
      select c.oid, c.relkind from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = any (${schemas}) and c.relkind in ('r', 'p', 'i', 'S', 'v')
        and not exists (select from pg_index i join pg_class m on m.oid = i.indrelid and m.relkind = 'm' where i.indexrelid = c.oid)
        -- Those that come and go by time, and their indexes.
        and not (c.relispartition and exists (
          select from pg_class r join pg_namespace s on s.oid = r.relnamespace
          where s.nspname || '.' || r.relname = any (${[...digest.kept]})
            and r.oid = case c.relkind when 'i' then (select i.indrelid from pg_index i where i.indexrelid = pg_partition_root(c.oid))
              else pg_partition_root(c.oid) end))
      union all select c.oid, c.relkind from pg_class c where c.oid = to_regclass('storage.objects')
    ), tables as materialized (
      select oid from managed where relkind in ('r', 'p', 'v')
    ), rows as (
      select c.oid::int8 as id, c.xmin::text::int8 as version from pg_class c where c.oid in (select oid from managed)
      union all select a.attrelid::int8 * 1600 + a.attnum, a.xmin::text::int8 from pg_attribute a where a.attnum > 0 and a.attrelid in (select oid from tables)
      union all select d.oid::int8, d.xmin::text::int8 from pg_attrdef d where d.adrelid in (select oid from tables)
      -- What a constraint has for each partition comes and goes with it.
      union all select k.oid::int8, k.xmin::text::int8 from pg_constraint k where k.conrelid in (select oid from tables) and k.conparentid = 0
      union all select i.indexrelid::int8, i.xmin::text::int8 from pg_index i where i.indrelid in (select oid from tables)
      union all select k.oid::int8, k.xmin::text::int8 from pg_constraint k join pg_type t on t.oid = k.contypid join pg_namespace n on n.oid = t.typnamespace
        where n.nspname = any (${schemas})
      union all select a.attrelid::int8 * 1600 + a.attnum, a.xmin::text::int8
        from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
        where n.nspname = any (${schemas}) and c.relkind = 'c'
      union all select e.oid::int8, e.xmin::text::int8 from pg_extension e
        where e.extname = any (${digest.extensions})
      union all select d.objoid::int8 * 1600 + d.objsubid, d.xmin::text::int8 from pg_description d
        where d.classoid = 'pg_class'::regclass and d.objoid in (select oid from tables)
      union all select p.oid::int8, p.xmin::text::int8 from pg_policy p where p.polrelid in (select oid from tables)
      union all select p.oid::int8, p.xmin::text::int8 from pg_policy p where p.polrelid = to_regclass(${REALTIME_MESSAGES})
      union all select t.oid::int8, t.xmin::text::int8 from pg_trigger t where (not t.tgisinternal or t.tgenabled in ('D', 'R')) and t.tgrelid in (select oid from tables)
      union all select t.oid::int8, t.xmin::text::int8 from pg_trigger t where t.tgrelid = to_regclass('auth.users') and not t.tgisinternal
      union all select p.oid::int8, p.xmin::text::int8 from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = 'svc_meta' and p.proname ~ '^(on_update|new_user)_'
      union all select p.oid::int8, p.xmin::text::int8 from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = any (${schemas})
      union all select t.oid::int8, t.xmin::text::int8 from pg_type t join pg_namespace n on n.oid = t.typnamespace
        where n.nspname = any (${schemas}) and t.typtype in ('e', 'd', 'r')
      union all select e.oid::int8, e.xmin::text::int8 from pg_enum e join pg_type t on t.oid = e.enumtypid join pg_namespace n on n.oid = t.typnamespace
        where n.nspname = any (${schemas})
      union all select r.oid::int8, r.xmin::text::int8 from pg_rewrite r where r.ev_class in (select oid from tables)
      union all select d.objoid::int8 * 1600 + d.objsubid, d.xmin::text::int8 from pg_description d
        where d.classoid = 'pg_class'::regclass and d.objoid in (select oid from managed where relkind in ('v', 'S'))
      -- A refresh leaves other versions of these rows behind, and changes nothing.
      union all select c.oid::int8, hashtextextended(concat_ws(' ', c.relname, c.relnamespace, c.relowner, c.relispopulated, c.relacl, r.oid,
          (select string_agg(concat_ws(' ', x.relname, x.relam, x.reloptions, i.indisunique, i.indisvalid, i.indkey, i.indclass, i.indoption, i.indcollation, i.indexprs, i.indpred), ';' order by x.oid)
            from pg_index i join pg_class x on x.oid = i.indexrelid where i.indrelid = c.oid),
          (select string_agg(concat(d.objsubid, d.description), ';' order by d.objsubid) from pg_description d where d.classoid = 'pg_class'::regclass and d.objoid = c.oid)), 0)
        from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_rewrite r on r.ev_class = c.oid
        where n.nspname = any (${schemas}) and c.relkind = 'm'
      union all select p.oid::int8, p.xmin::text::int8 from pg_publication p where p.pubname = ${PUBLICATION}
      union all select m.oid::int8, m.xmin::text::int8 from pg_publication_rel m join pg_publication p on p.oid = m.prpubid
        where p.pubname = ${PUBLICATION} and m.prrelid in (select oid from tables)
      union all select n.oid::int8, n.xmin::text::int8 from pg_namespace n where n.nspname = any (${schemas})
      union all (${versionsOfStatements(schemas)})
    )
    select count(*) || ':' || coalesce(sum(hashint8extended(id, version)), 0) as fingerprint from rows`);
  return row?.fingerprint ?? '';
}

/** Has every instance read the catalog again: those that hear it now, the others when they see another version. */
export async function announceSchema(session: Queryable): Promise<void> {
  await session.query(sql`
    with touched as (update svc_meta.stamp set complete = complete)
    select pg_notify(${SCHEMA_CHANNEL}, '')`);
}

/** Another one after each announcement; cheap to ask for. */
export async function readSchemaVersion(db: Queryable): Promise<string> {
  const [row] = await db.query<{ version: string }>(
    raw(`select xmin::text || ctid::text as version from svc_meta.stamp`),
  );
  return row?.version ?? '';
}
