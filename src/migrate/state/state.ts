// Reads and writes `svc_meta`: what the engine owns, which file was applied last, and the history. Knows the
// tables; what the rows mean for a plan is decided by those who ask.
import { createHash } from 'node:crypto';
import { hostname } from 'node:os';
import { gunzipSync, gzipSync } from 'node:zlib';
import type { Queryable } from '../../postgres/owner-database.ts';
import { raw, sql } from '../../postgres/sql.ts';
import type { SchemaModel } from '../schema/model.ts';
import type { OwnedTable, Ownership } from '../schema/managed.ts';
import type { Step } from '../plan/step.ts';

/** Raised when the same file may lead to another database; forces one full comparison after an upgrade. */
export const ENGINE_VERSION = 4;

export const SCHEMA_CHANNEL = 'svc_schema';

/** The identity under which the policies of all buckets stand. */
export const STORAGE_POLICIES = 'storage policies';

export type Stamp = {
  readonly schemaHash: string;
  readonly catalogStamp: string;
  readonly serverVersion: number;
  readonly engineVersion: number;
  readonly complete: boolean;
  readonly appliedAt: Date;
};

const hashes = new WeakMap<SchemaModel, string>();

/** A model never changes, so it is written out for this only once. */
export function hashModel(model: SchemaModel): string {
  const found = hashes.get(model) ?? createHash('sha256').update(JSON.stringify(model)).digest('hex');
  hashes.set(model, found);
  return found;
}

export function packModel(model: SchemaModel): Buffer {
  return gzipSync(JSON.stringify(model), { level: 1 });
}

export function unpackModel(packed: Buffer): unknown {
  return JSON.parse(gunzipSync(packed).toString());
}

export async function readStamp(session: Queryable): Promise<Stamp | null> {
  const [row] = await session.query<{
    schema_hash: string;
    catalog_stamp: string;
    server_version: number;
    engine_version: number;
    complete: boolean;
    applied_at: Date;
  }>(raw('select * from svc_meta.stamp'));
  if (!row) return null;
  return {
    schemaHash: row.schema_hash,
    catalogStamp: row.catalog_stamp,
    serverVersion: row.server_version,
    engineVersion: row.engine_version,
    complete: row.complete,
    appliedAt: row.applied_at,
  };
}

export async function writeStamp(session: Queryable, stamp: Omit<Stamp, 'appliedAt'>): Promise<void> {
  await session.query(sql`
    insert into svc_meta.stamp (schema_hash, catalog_stamp, server_version, engine_version, complete)
    values (${stamp.schemaHash}, ${stamp.catalogStamp}, ${stamp.serverVersion}, ${stamp.engineVersion}, ${stamp.complete})
    on conflict (one) do update set schema_hash = excluded.schema_hash, catalog_stamp = excluded.catalog_stamp,
      server_version = excluded.server_version, engine_version = excluded.engine_version,
      complete = excluded.complete, applied_at = now()`);
}

/**
 * What the ledger declares is applied but not verified: nothing may be taken as proven until the stamp is written
 * again. Part of the transaction that records the declarations, because a step after it may leave no trace in the
 * catalog when it does not come to its end.
 */
export async function withdrawStamp(session: Queryable): Promise<void> {
  await session.query(raw('update svc_meta.stamp set complete = false where complete'));
}

/**
 * One number over the row versions of everything the engine compares. Data, statistics, vacuum and rolled-back
 * DDL leave it alone; any real change of structure, grants, policies or functions changes it.
 */
export async function readCatalogStamp(session: Queryable, schemas: readonly string[]): Promise<string> {
  const [row] = await session.query<{ stamp: string }>(sql`
    with managed as materialized (
      select c.oid, c.relkind from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = any (${[...schemas]}) and c.relkind in ('r', 'p', 'i', 'S')
      union all select c.oid, c.relkind from pg_class c where c.oid = to_regclass('storage.objects')
    ), tables as materialized (
      select oid from managed where relkind in ('r', 'p')
    ), rows as (
      select c.oid::int8 as id, c.xmin::text::int8 as version from pg_class c where c.oid in (select oid from managed)
      union all select a.attrelid::int8 * 1600 + a.attnum, a.xmin::text::int8 from pg_attribute a where a.attnum > 0 and a.attrelid in (select oid from tables)
      union all select d.oid::int8, d.xmin::text::int8 from pg_attrdef d where d.adrelid in (select oid from tables)
      union all select k.oid::int8, k.xmin::text::int8 from pg_constraint k where k.conrelid in (select oid from tables)
      union all select i.indexrelid::int8, i.xmin::text::int8 from pg_index i where i.indrelid in (select oid from tables)
      union all select p.oid::int8, p.xmin::text::int8 from pg_policy p where p.polrelid in (select oid from tables)
      union all select t.oid::int8, t.xmin::text::int8 from pg_trigger t where (not t.tgisinternal or t.tgenabled in ('D', 'R')) and t.tgrelid in (select oid from tables)
      union all select p.oid::int8, p.xmin::text::int8 from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = any (${[...schemas]})
      union all select n.oid::int8, n.xmin::text::int8 from pg_namespace n where n.nspname = any (${[...schemas]})
    )
    select count(*) || ':' || coalesce(sum(hashint8extended(id, version)), 0) as stamp from rows`);
  return row?.stamp ?? '';
}

type ObjectRow = {
  identity: string;
  kind: 'table' | 'column' | 'function' | 'storage_policies';
  state: 'managed' | 'retired';
  declared_hash: string | null;
  definition: unknown;
};

export type LedgerObjects = {
  readonly ownership: Ownership;
  readonly declared: ReadonlyMap<string, DeclaredRow>;
};

export type DeclaredRow = { readonly hash: string; readonly canonical: unknown };

export async function readObjects(session: Queryable): Promise<LedgerObjects> {
  const rows = await session.query<ObjectRow>(
    raw('select identity, kind, state, declared_hash, definition from svc_meta.object'),
  );
  const tables = new Map<string, OwnedTable>();
  const retiredTables = new Map<string, OwnedTable>();
  const retiredColumns = new Set<string>();
  const functions = new Set<string>();
  const retiredFunctions = new Set<string>();
  const storagePolicies = new Set<string>();
  const declared = new Map<string, DeclaredRow>();
  for (const row of rows) {
    const name = row.identity.slice(row.identity.indexOf(' ') + 1);
    const definition = isRecord(row.definition) ? row.definition : {};
    if (row.declared_hash !== null && row.state === 'managed') {
      declared.set(row.identity, { hash: row.declared_hash, canonical: definition['canonical'] });
    }
    if (row.kind === 'table' && row.state === 'managed') tables.set(name, toOwnedTable(definition));
    if (row.kind === 'table' && row.state === 'retired') retiredTables.set(name, toOwnedTable(definition));
    if (row.kind === 'column' && row.state === 'retired') retiredColumns.add(name);
    if (row.kind === 'function') (row.state === 'managed' ? functions : retiredFunctions).add(name);
    if (row.kind === 'storage_policies')
      for (const label of [...strings(definition['labels']), ...strings(definition['leaving'])])
        storagePolicies.add(label);
  }
  return {
    ownership: { tables, retiredTables, retiredColumns, functions, retiredFunctions, storagePolicies },
    declared,
  };
}

function toOwnedTable(definition: Record<string, unknown>): OwnedTable {
  // What a run that came to no end was to take away is still ours.
  const leaving = isRecord(definition['leaving']) ? definition['leaving'] : {};
  const labels = (of: string): string[] => [
    ...new Set([...strings(definition[of]), ...strings(leaving[of])]),
  ];
  return {
    columns: strings(definition['columns']),
    constraints: labels('constraints'),
    indexes: labels('indexes'),
    policies: labels('policies'),
    closed: definition['closed'] === true,
    ...(isRecord(definition['fills']) ? { fills: texts(definition['fills']) } : {}),
  };
}

function texts(record: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(record).flatMap(([key, value]) => (typeof value === 'string' ? [[key, value]] : [])),
  );
}

/** The fills of these tables are done. */
export async function clearFills(session: Queryable, identities: readonly string[]): Promise<void> {
  await session.query(
    sql`update svc_meta.object set definition = definition - 'fills' where identity = any (${[...identities]})`,
  );
}

/** All that was to go is gone. */
export async function settleObjects(session: Queryable, forgotten: readonly string[]): Promise<void> {
  await session.query(
    raw(`update svc_meta.object set definition = definition - 'leaving' where definition ? 'leaving'`),
  );
  if (forgotten.length > 0)
    await session.query(sql`delete from svc_meta.object where identity = any (${[...forgotten]})`);
}

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : [];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

export type ObjectWrite = {
  readonly identity: string;
  readonly kind: ObjectRow['kind'];
  readonly state: ObjectRow['state'];
  readonly declaredHash: string | null;
  readonly definition: unknown;
};

export async function writeObjects(
  session: Queryable,
  runId: string,
  writes: readonly ObjectWrite[],
  forgotten: readonly string[],
): Promise<void> {
  if (forgotten.length > 0) {
    await session.query(sql`delete from svc_meta.object where identity = any (${[...forgotten]})`);
  }
  if (writes.length === 0) return;
  await session.query(sql`
    insert into svc_meta.object (identity, kind, state, declared_hash, definition, run_id)
    select x.identity, x.kind, x.state, x."declaredHash", x.definition, ${runId}::bigint
    from jsonb_to_recordset(${JSON.stringify(writes)}::jsonb) as x (identity text, kind text, state text, "declaredHash" text, definition jsonb)
    on conflict (identity) do update set kind = excluded.kind, state = excluded.state, declared_hash = excluded.declared_hash,
      definition = excluded.definition, run_id = excluded.run_id,
      changed_at = case when svc_meta.object.state = excluded.state then svc_meta.object.changed_at else now() end`);
}

export type RunKind = 'apply' | 'adopt' | 'prune' | 'down';

export async function startRun(
  session: Queryable,
  run: {
    readonly kind: RunKind;
    readonly parentHash: string | null;
    readonly schemaHash: string;
    readonly deploySeq: number | null;
    readonly model: SchemaModel;
    readonly instance: string;
  },
): Promise<string> {
  // The lock is ours, so whoever is still "running" is dead.
  await session.query(
    raw(`update svc_meta.run set status = 'interrupted', finished_at = now() where status = 'running'`),
  );
  const [row] = await session.query<{ id: string }>(sql`
    insert into svc_meta.run (kind, status, parent_hash, schema_hash, deploy_seq, engine_version, model_gzip, instance, backend_pid)
    values (${run.kind}, 'running', ${run.parentHash}, ${run.schemaHash}, ${run.deploySeq}, ${ENGINE_VERSION},
      ${packModel(run.model)}, ${`${run.instance}@${hostname()}`}, pg_backend_pid())
    returning id::text`);
  if (!row) throw new Error('a run was not recorded');
  return row.id;
}

export async function finishRun(
  session: Queryable,
  runId: string,
  status: 'done' | 'failed' | 'refused',
  error: string | null,
): Promise<void> {
  await session.query(
    sql`update svc_meta.run set status = ${status}, finished_at = now(), error = ${error} where id = ${runId}::bigint`,
  );
}

export async function recordSteps(session: Queryable, runId: string, steps: readonly Step[]): Promise<void> {
  const rows = steps.map((step, ordinal) => ({
    ordinal,
    lane: step.lane,
    identity: step.identity,
    summary: step.summary,
    sql: step.sql,
  }));
  await session.query(sql`
    insert into svc_meta.step (run_id, ordinal, lane, identity, summary, sql, status)
    select ${runId}::bigint, x.ordinal, x.lane, x.identity, x.summary, x.sql, 'pending'
    from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as x (ordinal int, lane text, identity text, summary text, sql text)`);
}

export async function markSteps(
  session: Queryable,
  runId: string,
  ordinals: readonly number[],
  status: 'running' | 'done' | 'failed',
  durationMs: number | null,
  error: string | null = null,
): Promise<void> {
  await session.query(sql`
    update svc_meta.step set status = ${status}, duration_ms = ${durationMs}, error = ${error}
    where run_id = ${runId}::bigint and ordinal = any (${[...ordinals]}::int[])`);
}

export type HistoryRow = {
  readonly id: string;
  readonly kind: string;
  readonly status: string;
  readonly schemaHash: string;
  readonly parentHash: string | null;
  readonly instance: string;
  readonly startedAt: Date;
  readonly finishedAt: Date | null;
  readonly steps: number;
  readonly error: string | null;
};

export async function readHistory(session: Queryable, limit: number): Promise<HistoryRow[]> {
  return session.query<HistoryRow>(sql`
    select r.id::text as id, r.kind, r.status, r.schema_hash as "schemaHash", r.parent_hash as "parentHash", r.instance,
      r.started_at as "startedAt", r.finished_at as "finishedAt", r.error,
      (select count(*)::int from svc_meta.step s where s.run_id = r.id) as steps
    from svc_meta.run r order by r.id desc limit ${limit}`);
}

/** What this file is to the history: never applied, the newest, or one that was replaced. */
export async function readFence(
  session: Queryable,
  schemaHash: string,
): Promise<{
  readonly current: string | null;
  readonly replacedAt: Date | null;
  readonly newestSeq: number | null;
  /** This file is what the newest run of all was about, and that run is done but for its long steps. */
  readonly isNewest: boolean;
}> {
  const [row] = await session.query<{
    current: string | null;
    replaced_at: Date | null;
    newest_seq: string | null;
    is_newest: boolean | null;
  }>(sql`
    with done as (select * from svc_meta.run where status = 'done' and kind in ('apply', 'adopt', 'down')),
      newest as (select * from done order by id desc limit 1)
    select (select schema_hash from newest) as current,
      (select min(d.started_at) from done d where d.id > (select max(id) from done where schema_hash = ${schemaHash})
        and d.schema_hash <> ${schemaHash}) as replaced_at,
      (select max(deploy_seq)::text from done) as newest_seq,
      (select status = 'done' and schema_hash = ${schemaHash} from svc_meta.run order by id desc limit 1) as is_newest`);
  return {
    current: row?.current ?? null,
    replacedAt: row?.replaced_at ?? null,
    newestSeq: row?.newest_seq ? Number(row.newest_seq) : null,
    isNewest: row?.is_newest ?? false,
  };
}
