// Rows of a seed, written as the owner of the tables: what has its key is upserted, parents come first.
import type { Config, SeedEntry } from '../config/config.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { ident, join, raw, sql, type Sql } from '../postgres/sql.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { Problem } from '../problem/problem.ts';
import type { SourceRow, SourceTable } from './seed-sources.ts';

export type RowOptions = {
  readonly onConflict: SeedEntry['onConflict'];
  /** Rows without a key are inserted in the first run only, because a second run could not identify them. */
  readonly isFirstRun: boolean;
  /** Ids of users, by what seeds call them. */
  readonly users: ReadonlyMap<string, string>;
};

/** Rows in one statement. */
const MAX_BATCH_ROWS = 1_000;

/** Writes the rows and answers how many were made or changed. */
export async function writeRows(
  transaction: Queryable,
  table: SourceTable,
  options: RowOptions,
): Promise<number> {
  const rows = table.rows.filter((row) => options.isFirstRun || hasKey(table, row));
  const target = { table, jsonTypes: table.isText ? await readJsonTypes(transaction, table) : NO_TYPES };
  let written = 0;
  for (const batch of batches(rows)) {
    await transaction.query(raw('savepoint seed_rows'));
    try {
      written += await write(transaction, target, batch, options);
    } catch (error) {
      if (!isDatabaseError(error)) throw error;
      await transaction.query(raw('rollback to savepoint seed_rows'));
      throw await explain(transaction, target, { rows: batch, cause: error }, options);
    }
    await transaction.query(raw('release savepoint seed_rows'));
  }
  await moveSequences(transaction, table);
  return written;
}

/** Tables that others refer to come before those; in a ring of references, the order of the file holds. */
export function parentsFirst(
  tables: readonly SourceTable[],
  config: Pick<Config, 'tables'>,
): readonly SourceTable[] {
  const tableKey = ({ schema, table }: { schema: string; table: string }): string => `${schema}.${table}`;
  const waiting = new Map(tables.map((table) => [tableKey(table), table]));
  const ordered: SourceTable[] = [];
  const visit = (table: SourceTable): void => {
    if (!waiting.delete(tableKey(table))) return;
    const declared = config.tables.find(
      ({ schema, name }) => schema === table.schema && name === table.table,
    );
    for (const { foreignKey } of declared?.fields ?? []) {
      const parent = foreignKey && waiting.get(tableKey(foreignKey));
      if (parent) visit(parent);
    }
    ordered.push(table);
  };
  for (const table of tables) visit(table);
  return ordered;
}

const hasKey = ({ primaryKey }: SourceTable, { values }: SourceRow): boolean =>
  primaryKey.length > 0 && primaryKey.every((column) => values.has(column));

/** Consecutive rows with the same columns: a column that is left out takes its default. */
function* batches(rows: readonly SourceRow[]): Generator<readonly SourceRow[]> {
  let batch: SourceRow[] = [];
  for (const row of rows) {
    const [first] = batch;
    if (first && (batch.length === MAX_BATCH_ROWS || columnNames(first).join() !== columnNames(row).join())) {
      yield batch;
      batch = [];
    }
    batch.push(row);
  }
  if (batch.length > 0) yield batch;
}

const columnNames = ({ values }: SourceRow): string[] => [...values.keys()].sort();

type Target = {
  readonly table: SourceTable;
  /** Types of the columns whose JSON the rows hold as text. */
  readonly jsonTypes: ReadonlyMap<string, string>;
};

const NO_TYPES: ReadonlyMap<string, string> = new Map();

/** The columns of type json and jsonb, and of domains over them, with their types. */
async function readJsonTypes(
  transaction: Queryable,
  { schema, table }: SourceTable,
): Promise<ReadonlyMap<string, string>> {
  const found = await transaction.query<{ name: string; type: string }>(sql`
    with recursive steps as (
      select a.attname, format_type(a.atttypid, a.atttypmod) as type, a.atttypid as base
      from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = ${schema} and c.relname = ${table} and a.attnum > 0 and not a.attisdropped
      union all
      select steps.attname, steps.type, t.typbasetype from steps
      join pg_type t on t.oid = steps.base and t.typtype = 'd'
    )
    select attname as name, type from steps where base in ('json'::regtype, 'jsonb'::regtype)`);
  return new Map(found.map(({ name, type }) => [name, type]));
}

async function write(
  transaction: Queryable,
  { table, jsonTypes }: Target,
  rows: readonly SourceRow[],
  { onConflict, users }: RowOptions,
): Promise<number> {
  const [first] = rows;
  if (!first) return 0;
  const target = ident(table.schema, table.table);
  const columns = columnNames(first);
  const list = join(columns.map((column) => ident(column)));
  const json = `[${rows.map((row) => toJson(row, users)).join(',')}]`;
  const given = join(
    columns.map((column) => {
      const type = jsonTypes.get(column);
      return type === undefined ? ident('typed', column) : sql`(given.value ->> ${column})::${raw(type)}`;
    }),
  );
  const values = sql`select ${given} from jsonb_array_elements(${json}::jsonb) as given(value),
    jsonb_populate_record(null::${target}, given.value) as typed`;
  const written = await transaction.query(
    columns.length === 0
      ? sql`insert into ${target} default values returning 1`
      : sql`insert into ${target} as present (${list}) overriding system value ${values}
          ${hasKey(table, first) ? conflict(table, columns, onConflict) : raw('')} returning 1`,
  );
  return written.length;
}

function conflict(table: SourceTable, columns: readonly string[], onConflict: RowOptions['onConflict']): Sql {
  const key = join(table.primaryKey.map((column) => ident(column)));
  const nonKeyColumns = columns.filter((column) => !table.primaryKey.includes(column));
  if (onConflict === 'keep' || nonKeyColumns.length === 0) return sql`on conflict (${key}) do nothing`;
  const all = (relation: string): Sql => join(nonKeyColumns.map((column) => ident(relation, column)));
  const assignments = nonKeyColumns.map((column) => sql`${ident(column)} = ${ident('excluded', column)}`);
  return sql`on conflict (${key}) do update set ${join(assignments)}
    where (${all('present')}) is distinct from (${all('excluded')})`;
}

function toJson({ values }: SourceRow, users: RowOptions['users']): string {
  const fields = [...values].map(([column, value]) => {
    const json = 'json' in value ? value.json : JSON.stringify(users.get(value.user) ?? null);
    return `${JSON.stringify(column)}:${json}`;
  });
  return `{${fields.join(',')}}`;
}

type Failed = {
  readonly rows: readonly SourceRow[];
  readonly cause: Error & { readonly detail?: string | undefined };
};

/** Finds the row that the batch failed at. */
async function explain(
  transaction: Queryable,
  target: Target,
  { rows, cause }: Failed,
  options: RowOptions,
): Promise<Problem> {
  const { table } = target;
  for (const row of rows) {
    try {
      await write(transaction, target, [row], options);
    } catch (error) {
      return failedAt(`${row.place}: the row of ${table.table}`, isDatabaseError(error) ? error : cause);
    }
  }
  return failedAt(`The rows of ${table.table}`, cause);
}

export function failedAt(place: string, cause: Error & { readonly detail?: string | undefined }): Problem {
  return new Problem('seed_failed', 500, `${place} is refused: ${cause.message}`, {
    cause,
    details: cause.detail,
    hint: 'Nothing of this entry was done.',
  });
}

/** Values that were given for a counting column are behind the counter afterwards. */
async function moveSequences(transaction: Queryable, table: SourceTable): Promise<void> {
  const name = `"${table.schema.replaceAll('"', '""')}"."${table.table.replaceAll('"', '""')}"`;
  for (const column of new Set(table.rows.flatMap(columnNames))) {
    const [found] = await transaction.query<{ sequence: string | null }>(
      sql`select pg_get_serial_sequence(${name}, ${column}) as sequence`,
    );
    if (!found?.sequence) continue;
    await transaction.query(sql`
      select setval(${found.sequence}::regclass, highest)
      from (select max(${ident(column)}) as highest from ${ident(table.schema, table.table)}) rows
      where highest > coalesce(pg_sequence_last_value(${found.sequence}::regclass), 0)`);
  }
}
