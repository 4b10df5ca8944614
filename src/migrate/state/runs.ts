// Writes `svc_meta.run` and `svc_meta.step`: the history of runs and the progress of their steps.
import { hostname } from 'node:os';
import { gunzipSync, gzipSync } from 'node:zlib';
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

/** `expand` prepares the data steps of a file. The file counts as applied only after these steps. */
export type RunKind = 'apply' | 'down' | 'expand';

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
  // This session holds the migration lock, so a run that is still marked as running has crashed.
  await session.query(
    raw(`update svc_meta.run set status = 'interrupted', finished_at = now() where status = 'running'`),
  );
  const [row] = await session.query<{ id: string }>(sql`
    insert into svc_meta.run (kind, status, parent_hash, schema_hash, deploy_seq, engine_version, model_gzip,
      instance, backend_pid)
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
    from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
      as x (ordinal int, lane text, identity text, summary text, sql text)`);
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
