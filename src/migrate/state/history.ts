// Reads past runs and their models. A model to return to gets the reversed renames of later files.
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

/**
 * Returns the finished run with this id, or the newest finished run. `otherThan` skips runs of the file with that
 * hash.
 */
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

// Rejects a model in the format of an older version.
function isModel(value: unknown): value is SchemaModel {
  return (
    typeof value === 'object' &&
    value !== null &&
    'tables' in value &&
    'functions' in value &&
    'buckets' in value
  );
}

/**
 * Adds the reversed renames of `current` to `target`. Without them the migration would create an empty table or column
 * in addition to the renamed one with the data.
 */
export function withRenamesReversed(target: SchemaModel, current: SchemaModel): SchemaModel {
  return {
    ...target,
    tables: target.tables.map((table) => {
      const later = current.tables.find(
        (candidate) =>
          candidate.schema === table.schema &&
          (candidate.name === table.name || candidate.renamedFrom === table.name),
      );
      const renamedFrom = later && later.name !== table.name ? later.name : null;
      return { ...table, renamedFrom, columns: table.columns.map((column) => reverseColumn(column, later)) };
    }),
  };
}

function reverseColumn(column: ColumnModel, later: TableModel | undefined): ColumnModel {
  const isThere = later?.columns.some((candidate) => candidate.name === column.name);
  const renamed = later?.columns.find((candidate) => candidate.renamedFrom === column.name);
  return { ...column, renamedFrom: isThere ? null : (renamed?.name ?? null) };
}
