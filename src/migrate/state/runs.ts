// The rows of `svc_meta.run` and `svc_meta.step`: what was run, by whom, and how far it came.
import { hostname } from 'node:os';
import { gunzipSync, gzipSync } from 'node:zlib';
import { must } from '../../lib/assert.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { raw, sql } from '../../postgres/sql.ts';
import type { SchemaModel } from '../schema/model.ts';
import type { Step } from '../plan/step.ts';
import { ENGINE_VERSION } from './applied-state.ts';

export function unpackModel(packed: Buffer): unknown {
  return JSON.parse(gunzipSync(packed).toString());
}

function packModel(model: SchemaModel): Buffer {
  return gzipSync(JSON.stringify(model), { level: 1 });
}

export type RunKind = 'apply' | 'down';

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
  // This session holds the lock, so a run that is still marked as running has died.
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
  status: 'done' | 'failed',
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

/** What the history knows of a file: decides whether an instance that holds it may migrate. */
export type FencingToken = {
  /** Hash of the file that was applied last. */
  readonly current: string | null;
  /** When another file took the place of this one. */
  readonly replacedAt: Date | null;
  readonly newestSeq: number | null;
  /** The newest run of all applied this file and is done, but for its long steps. */
  readonly isNewest: boolean;
};

export async function readFencingToken(session: Queryable, schemaHash: string): Promise<FencingToken> {
  const [row] = await session.query<FencingToken>(sql`
    with done as (select * from svc_meta.run where status = 'done')
    select (select schema_hash from done order by id desc limit 1) as current,
      (select min(d.started_at) from done d where d.id > (select max(id) from done where schema_hash = ${schemaHash})
        and d.schema_hash <> ${schemaHash}) as "replacedAt",
      (select max(deploy_seq)::float8 from done) as "newestSeq",
      coalesce((select status = 'done' and schema_hash = ${schemaHash} from svc_meta.run order by id desc limit 1), false) as "isNewest"`);
  return must(row, 'the fencing token');
}

/** A file that was replaced by another one never migrates the database back by itself. */
export function isSuperseded(
  token: FencingToken,
  schemaHash: string,
  policy: { readonly allowRollback: boolean; readonly deploySeq: number | null },
): boolean {
  if (policy.allowRollback || token.current === null || token.current === schemaHash) return false;
  if (policy.deploySeq !== null && token.newestSeq !== null) return policy.deploySeq < token.newestSeq;
  return token.replacedAt !== null;
}
