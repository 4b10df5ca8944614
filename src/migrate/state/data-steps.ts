// `svc_meta.data_step`: which data steps this database has seen, and with which text.
import { createHash } from 'node:crypto';
import type { Queryable } from '../../postgres/owner-database.ts';
import { raw, sql } from '../../postgres/sql.ts';
import { type DataStepModel, nameOf, type SchemaModel } from '../schema/model.ts';

/** Hash of its text by name. */
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

/** Those that ran, as opposed to skipped ones. */
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
    on conflict (name) do update set hash = excluded.hash, state = excluded.state, progress = null, finished_at = now()`);
}

/** The last key, as text, of the last batch that was done; null: none was. */
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

/** No file was applied to it, and none of the tables is there. */
export async function isBuiltFromNothing(session: Queryable, model: SchemaModel): Promise<boolean> {
  const names = model.tables.map((table) => nameOf(table));
  const [row] = await session.query<{ fresh: boolean }>(sql`
    select not exists (select from svc_meta.run where status = 'done')
      and not exists (select from unnest(${names}::text[]) as t (name) where to_regclass(t.name) is not null) as fresh`);
  return row?.fresh ?? false;
}

export type StagedSteps = {
  readonly pending: readonly DataStepModel[];
  /** Done with another text than the file has now. */
  readonly edited: readonly DataStepModel[];
};

export function stageSteps(model: SchemaModel, ledger: DataStepLedger): StagedSteps {
  const steps = model.dataSteps ?? [];
  return {
    pending: steps.filter(({ name }) => !ledger.has(name)),
    edited: steps.filter((step) => ledger.has(step.name) && ledger.get(step.name) !== hashDataStep(step)),
  };
}

/** The model whose hash says that these steps are still to run. */
export function withoutSteps(model: SchemaModel, pending: readonly DataStepModel[]): SchemaModel {
  const { dataSteps = [], ...rest } = model;
  const left = dataSteps.filter((step) => !pending.includes(step));
  return left.length === 0 ? rest : { ...rest, dataSteps: left };
}
