// Reads and writes `svc_meta.data_step`, the ledger of data steps that ran or were skipped.
import { createHash } from 'node:crypto';
import type { Queryable } from '../../postgres/owner-database.ts';
import { raw, sql } from '../../postgres/sql.ts';
import { type DataStepModel, quoteName, type SchemaModel } from '../schema/model.ts';

/** Hash of the SQL text, by the name of the step. */
export type DataStepLedger = ReadonlyMap<string, string>;

export function hashDataStep(step: DataStepModel): string {
  return createHash('sha256').update(step.sql).digest('hex');
}

export async function readDataSteps(session: Queryable): Promise<DataStepLedger> {
  const rows = await session.query<{ name: string; hash: string }>(
    raw(`select name, hash from svc_meta.data_step where state <> 'running'`),
  );
  return new Map(rows.map(({ name, hash }) => [name, hash]));
}

/** Returns the names of the steps that ran, without skipped steps. */
export async function readStepsDone(session: Queryable): Promise<ReadonlySet<string>> {
  const rows = await session.query<{ name: string }>(
    raw(`select name from svc_meta.data_step where state = 'done'`),
  );
  return new Set(rows.map(({ name }) => name));
}

export async function forgetDataSteps(session: Queryable, names: readonly string[]): Promise<void> {
  await session.query(sql`delete from svc_meta.data_step where name = any (${[...names]})`);
}

export async function recordDataStep(
  session: Queryable,
  step: DataStepModel,
  state: 'done' | 'skipped',
): Promise<void> {
  await session.query(sql`
    insert into svc_meta.data_step (name, hash, state) values (${step.name}, ${hashDataStep(step)}, ${state})
    on conflict (name) do update set hash = excluded.hash, state = excluded.state, progress = null,
      finished_at = now()`);
}

/** Returns the last key of the last completed batch, as text, or null. */
export async function readProgress(session: Queryable, step: DataStepModel): Promise<string | null> {
  const [row] = await session.query<{ progress: string | null }>(
    sql`select progress from svc_meta.data_step where name = ${step.name}`,
  );
  return row?.progress ?? null;
}

export async function recordProgress(session: Queryable, step: DataStepModel, last: string): Promise<void> {
  await session.query(sql`
    insert into svc_meta.data_step (name, hash, state, progress)
    values (${step.name}, ${hashDataStep(step)}, 'running', ${last})
    on conflict (name) do update set hash = excluded.hash, progress = excluded.progress`);
}

/** Returns true if no file was applied to the database and none of the tables exists. */
export async function isEmptyDatabase(session: Queryable, model: SchemaModel): Promise<boolean> {
  const names = model.tables.map((table) => quoteName(table));
  const [row] = await session.query<{ fresh: boolean }>(sql`
    select not exists (select from svc_meta.run where status = 'done')
      and not exists (select from unnest(${names}::text[]) as t (name) where to_regclass(t.name) is not null)
      as fresh`);
  return row?.fresh ?? false;
}

export type StagedSteps = {
  readonly pending: readonly DataStepModel[];
  /** Steps whose text has changed since they ran. */
  readonly edited: readonly DataStepModel[];
};

export function stageSteps(model: SchemaModel, ledger: DataStepLedger): StagedSteps {
  const steps = model.dataSteps ?? [];
  return {
    pending: steps.filter(({ name }) => !ledger.has(name)),
    edited: steps.filter((step) => ledger.has(step.name) && ledger.get(step.name) !== hashDataStep(step)),
  };
}

/** Returns the model without `pending`, so that its hash differs from that of the whole file. */
export function withoutSteps(model: SchemaModel, pending: readonly DataStepModel[]): SchemaModel {
  const { dataSteps = [], ...rest } = model;
  const left = dataSteps.filter((step) => !pending.includes(step));
  return left.length === 0 ? rest : { ...rest, dataSteps: left };
}
