// The way back: a file from the history becomes the model to plan for, with the renames since then turned round.
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { unpackModel } from './state.ts';
import type { ColumnModel, SchemaModel, TableModel } from '../schema/model.ts';

export type PastRun = { readonly id: string; readonly schemaHash: string; readonly model: SchemaModel };

/** The newest finished run, or null. */
export async function readCurrentRun(session: Queryable): Promise<PastRun | null> {
  return readRun(session, null, null);
}

/** The run with this id, or the newest one whose file differs from the current one. */
export async function readTargetRun(
  session: Queryable,
  id: string | null,
  currentHash: string,
): Promise<PastRun | null> {
  return readRun(session, id, currentHash);
}

async function readRun(
  session: Queryable,
  id: string | null,
  otherThan: string | null,
): Promise<PastRun | null> {
  const [row] = await session.query<{
    id: string;
    schemaHash: string;
    model: unknown;
    packed: Buffer | null;
  }>(sql`
    select id::text as id, schema_hash as "schemaHash", model, model_gzip as packed from svc_meta.run
    where status = 'done' and (${id}::bigint is null or id = ${id}::bigint)
      and (${id}::bigint is not null or ${otherThan}::text is null or schema_hash <> ${otherThan})
    order by id desc limit 1`);
  if (!row) return null;
  // Runs of earlier versions are not packed.
  const model = row.packed === null ? row.model : unpackModel(row.packed);
  return isModel(model) ? { id: row.id, schemaHash: row.schemaHash, model } : null;
}

// Written by `startRun` from a model; the check guards against an older shape of it.
function isModel(value: unknown): value is SchemaModel {
  return (
    typeof value === 'object' &&
    value !== null &&
    'tables' in value &&
    'functions' in value &&
    'buckets' in value
  );
}

/** What `current` renamed, `target` must rename back, or it would come back empty beside its own data. */
export function withRenamesReversed(target: SchemaModel, current: SchemaModel): SchemaModel {
  return {
    ...target,
    tables: target.tables.map((table) => {
      const later = current.tables.find(
        (one) => one.schema === table.schema && (one.name === table.name || one.renamedFrom === table.name),
      );
      if (!later) return plain(table);
      const renamedFrom = later.name === table.name ? null : later.name;
      return { ...table, renamedFrom, columns: table.columns.map((column) => reverseColumn(column, later)) };
    }),
  };
}

function plain(table: TableModel): TableModel {
  return {
    ...table,
    renamedFrom: null,
    columns: table.columns.map((column) => ({ ...column, renamedFrom: null })),
  };
}

function reverseColumn(column: ColumnModel, later: TableModel): ColumnModel {
  if (later.columns.some((one) => one.name === column.name)) return { ...column, renamedFrom: null };
  const renamed = later.columns.find((one) => one.renamedFrom === column.name);
  return { ...column, renamedFrom: renamed?.name ?? null };
}
