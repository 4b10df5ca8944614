// Rows of a seed, written as the owner of the tables: what has its key is upserted, parents come first.
import type { Config, SeedEntry } from '../config/config.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { ident, join, raw, sql, type Sql } from '../postgres/sql.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { Problem } from '../problem/problem.ts';
import type { SourceRow, SourceTable } from './seed-sources.ts';

export type RowOptions = {
  readonly onConflict: SeedEntry['onConflict'];
  /** Rows without a key are only inserted in the first run: nothing would tell a second one from the first. */
  readonly isFirstRun: boolean;
  /** Ids of users, by what seeds call them. */
  readonly users: ReadonlyMap<string, string>;
};

/** Rows in one statement. */
const MOST_AT_ONCE = 1_000;

/** Writes the rows and answers how many were made or changed. */
export async function writeRows(
  transaction: Queryable,
  table: SourceTable,
  options: RowOptions,
): Promise<number> {
  const rows = table.rows.filter((row) => options.isFirstRun || hasKey(table, row));
  let written = 0;
  for (const batch of batches(rows)) {
    await transaction.query(raw('savepoint seed_rows'));
    try {
      written += await write(transaction, table, batch, options);
    } catch (error) {
      if (!isDatabaseError(error)) throw error;
      await transaction.query(raw('rollback to savepoint seed_rows'));
      throw await explain(transaction, table, batch, options, error);
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
  const keyOf = ({ schema, table }: { schema: string; table: string }): string => `${schema}.${table}`;
  const waiting = new Map(tables.map((table) => [keyOf(table), table]));
  const ordered: SourceTable[] = [];
  const visit = (table: SourceTable): void => {
    if (!waiting.delete(keyOf(table))) return;
    const declared = config.tables.find(
      ({ schema, name }) => schema === table.schema && name === table.table,
    );
    for (const { foreignKey } of declared?.fields ?? []) {
      const parent = foreignKey && waiting.get(keyOf(foreignKey));
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
    if (first && (batch.length === MOST_AT_ONCE || columnsOf(first).join() !== columnsOf(row).join())) {
      yield batch;
      batch = [];
    }
    batch.push(row);
  }
  if (batch.length > 0) yield batch;
}

const columnsOf = ({ values }: SourceRow): string[] => [...values.keys()].sort();

async function write(
  transaction: Queryable,
  table: SourceTable,
  rows: readonly SourceRow[],
  { onConflict, users }: RowOptions,
): Promise<number> {
  const [first] = rows;
  if (!first) return 0;
  const target = ident(table.schema, table.table);
  const columns = columnsOf(first);
  const list = join(columns.map((column) => ident(column)));
  const json = `[${rows.map((row) => toJson(row, users)).join(',')}]`;
  const values = sql`select ${list} from jsonb_populate_recordset(null::${target}, ${json}::jsonb)`;
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
  const others = columns.filter((column) => !table.primaryKey.includes(column));
  if (onConflict === 'keep' || others.length === 0) return sql`on conflict (${key}) do nothing`;
  const all = (relation: string): Sql => join(others.map((column) => ident(relation, column)));
  const assignments = others.map((column) => sql`${ident(column)} = ${ident('excluded', column)}`);
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

/** Finds the row that the batch failed at. */
async function explain(
  transaction: Queryable,
  table: SourceTable,
  rows: readonly SourceRow[],
  options: RowOptions,
  cause: Error & { readonly detail?: string | undefined },
): Promise<Problem> {
  for (const row of rows) {
    try {
      await write(transaction, table, [row], options);
    } catch (error) {
      return failedAt(`${row.place}: the row of ${table.table}`, isDatabaseError(error) ? error : cause);
    }
  }
  return failedAt(`The rows of ${table.table}`, cause);
}

export function failedAt(what: string, cause: Error & { readonly detail?: string | undefined }): Problem {
  return new Problem('seed_failed', 500, `${what} is refused: ${cause.message}`, {
    cause,
    details: cause.detail,
    hint: 'Nothing of this entry was done.',
  });
}

/** Values that were given for a counting column are behind the counter afterwards. */
async function moveSequences(transaction: Queryable, table: SourceTable): Promise<void> {
  const name = `"${table.schema.replaceAll('"', '""')}"."${table.table.replaceAll('"', '""')}"`;
  for (const column of new Set(table.rows.flatMap(columnsOf))) {
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
