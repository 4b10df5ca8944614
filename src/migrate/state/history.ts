// Past runs: listed, and turned back into a model to plan for, with the renames since then reversed.
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { unpackModel } from './runs.ts';
import type { ColumnModel, SchemaModel, TableModel } from '../schema/model.ts';

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

export type PastRun = { readonly id: string; readonly schemaHash: string; readonly model: SchemaModel };

/** The finished run with this id, or the newest one, of a file with another hash if one is given. */
export async function readRun(
  session: Queryable,
  id: string | null = null,
  otherThan: string | null = null,
): Promise<PastRun | null> {
  const [row] = await session.query<{
    id: string;
    schemaHash: string;
    model: unknown;
    packed: Buffer | null;
  }>(sql`
    select id::text as id, schema_hash as "schemaHash", model, model_gzip as packed from svc_meta.run
    where status = 'done' and (kind <> 'expand' or id = ${id}::bigint) and (${id}::bigint is null or id = ${id}::bigint)
      and (${id}::bigint is not null or ${otherThan}::text is null or schema_hash <> ${otherThan})
    order by id desc limit 1`);
  if (!row) return null;
  // Earlier versions stored the model as jsonb.
  const model = row.packed === null ? row.model : unpackModel(row.packed);
  return isModel(model) ? { id: row.id, schemaHash: row.schemaHash, model } : null;
}

// Guards against the shape of a model that an older version wrote.
function isModel(value: unknown): value is SchemaModel {
  return (
    typeof value === 'object' &&
    value !== null &&
    'tables' in value &&
    'functions' in value &&
    'buckets' in value
  );
}

/** Renames of `current` are undone by `target`; without that it would create an empty table or column beside the data. */
export function withRenamesReversed(target: SchemaModel, current: SchemaModel): SchemaModel {
  return {
    ...target,
    tables: target.tables.map((table) => {
      const later = current.tables.find(
        (one) => one.schema === table.schema && (one.name === table.name || one.renamedFrom === table.name),
      );
      const renamedFrom = later && later.name !== table.name ? later.name : null;
      return { ...table, renamedFrom, columns: table.columns.map((column) => reverseColumn(column, later)) };
    }),
  };
}

function reverseColumn(column: ColumnModel, later: TableModel | undefined): ColumnModel {
  const isThere = later?.columns.some((one) => one.name === column.name);
  const renamed = later?.columns.find((one) => one.renamedFrom === column.name);
  return { ...column, renamedFrom: isThere ? null : (renamed?.name ?? null) };
}
