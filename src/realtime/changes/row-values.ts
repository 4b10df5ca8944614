// Values of rows as clients read them: the text of the write-ahead log becomes JSON in the database, which knows every type.
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import type { Relation, RowChange, Tuple } from '../../postgres/replication/pgoutput.ts';
import { ident, join, sql, type Sql } from '../../postgres/sql.ts';
import { toSql } from './condition-test.ts';
import type { Condition } from './filter.ts';
import { tableIdent, type PublishedTable } from './published-tables.ts';

/** By column; a column that is not known is absent. */
export type TextRow = ReadonlyMap<string, string | null>;
/** By column, the text of a JSON value. */
export type JsonRow = ReadonlyMap<string, string>;

export type RowTexts = { readonly new: TextRow | undefined; readonly old: TextRow | undefined };
export type RowJson = { readonly new: JsonRow | undefined; readonly old: JsonRow | undefined };

/** The condition, and the type of its column in SQL. */
export type AskedCondition = { readonly condition: Condition; readonly sqlType: string };

/** What the log says. `missing` are columns of the new row that it leaves out. */
export function textsOf(
  relation: Relation,
  change: RowChange,
  table: PublishedTable,
): RowTexts & { readonly missing: readonly string[] } {
  const whole = change.isWholeOld && change.old ? toRow(relation, change.old) : undefined;
  const old = whole ?? (change.old && toRow(relation, change.old, true));
  if (!change.new) return { new: undefined, old, missing: [] };
  const now = toRow(relation, change.new);
  // Large values that did not change are in the whole old row, if that is sent.
  for (const [name, value] of whole ?? []) if (!now.has(name)) now.set(name, value);
  const missing = table.columns.flatMap(({ name }) => (now.has(name) ? [] : [name]));
  return { new: now, old, missing };
}

function toRow({ columns }: Relation, tuple: Tuple, onlyKey = false): Map<string, string | null> {
  const row = new Map<string, string | null>();
  columns.forEach(({ name, isKey }, at) => {
    const value = tuple[at];
    if (value !== undefined && (isKey || !onlyKey)) row.set(name, value);
  });
  return row;
}

/** Reads by their keys what the log leaves out: large values that did not change, and generated columns. */
export async function readMissing(
  owner: OwnerDatabase,
  table: PublishedTable,
  rows: ReadonlyArray<{ readonly new: TextRow; readonly missing: readonly string[] }>,
): Promise<TextRow[]> {
  const columns = [...new Set(rows.flatMap(({ missing }) => missing))];
  const key = new Set(table.key);
  const asked = `[${rows.map((row, n) => `{"n":${n},"k":${toJson(table, row.new, key)}}`).join(',')}]`;
  const found = await owner.query<{ n: number; values: Array<string | null> }>(sql`
    select x.n, array[${join(columns.map((name) => sql`t.${ident(name)}::text`))}] as values
    from jsonb_to_recordset(${asked}::jsonb) x(n integer, k jsonb),
      lateral jsonb_populate_record(null::${tableIdent(table)}, x.k) k, ${tableIdent(table)} t
    where ${join(
      table.key.map((name) => sql`t.${ident(name)} = k.${ident(name)}`),
      ' and ',
    )}`);
  const byNumber = new Map(found.map(({ n, values }) => [n, values]));
  return rows.map((row, n) => {
    const values = byNumber.get(n);
    if (!values) return row.new;
    const whole = new Map(row.new);
    columns.forEach((name, at) => {
      if (row.missing.includes(name)) whole.set(name, values[at] ?? null);
    });
    return whole;
  });
}

export async function readJson(
  owner: OwnerDatabase,
  table: PublishedTable,
  rows: readonly RowTexts[],
): Promise<RowJson[]> {
  const values = (alias: string): Sql =>
    join(table.columns.map(({ name }) => sql`to_jsonb(${ident(alias, name)})::text`));
  const found = await owner.query<{
    n: number;
    new: Array<string | null>;
    old: Array<string | null>;
  }>(sql`
    select x.n, array[${values('n')}] as new, array[${values('o')}] as old
    from ${recordsOf(table, rows)}
    order by x.n`);
  return found.map((one, at) => ({
    new: toJsonRow(table, rows[at]?.new, one.new),
    old: toJsonRow(table, rows[at]?.old, one.old),
  }));
}

/** Of each row which of the conditions hold, by their numbers; a row that is gone is judged by what it was. */
export function holdsQuery(
  table: PublishedTable,
  rows: readonly RowTexts[],
  conditions: readonly AskedCondition[],
): Sql {
  const holds = conditions.map(
    ({ condition, sqlType }, n) =>
      sql`case when case when x.new is null then ${toSql(condition, 'o', sqlType)}
        else ${toSql(condition, 'n', sqlType)} end then ${n}::integer end`,
  );
  return sql`select array_to_json(array_remove(array[${join(holds)}], null))
    from ${recordsOf(table, rows)}
    order by x.n`;
}

/** The rows as `n` and `o`, numbered by `x.n`. */
function recordsOf(table: PublishedTable, rows: readonly RowTexts[]): Sql {
  const asked = `[${rows
    .map((row, n) => `{"n":${n},"new":${toJson(table, row.new)},"old":${toJson(table, row.old)}}`)
    .join(',')}]`;
  return sql`jsonb_to_recordset(${asked}::jsonb) x(n integer, new jsonb, old jsonb),
    lateral jsonb_populate_record(null::${tableIdent(table)}, x.new) n,
    lateral jsonb_populate_record(null::${tableIdent(table)}, x.old) o`;
}

function toJsonRow(
  { columns }: PublishedTable,
  texts: TextRow | undefined,
  values: ReadonlyArray<string | null>,
): JsonRow | undefined {
  if (!texts) return undefined;
  const row = new Map<string, string>();
  columns.forEach(({ name, type }, at) => {
    if (!texts.has(name)) return;
    const value = values[at] ?? 'null';
    // Clients know bytes as plain hexadecimal.
    row.set(name, type === 'bytea' ? value.replace(String.raw`\\x`, '') : value);
  });
  return row;
}

/** As `jsonb_populate_record` reads it: everything is text but JSON, which would end up in quotes. */
function toJson({ columns }: PublishedTable, row: TextRow | undefined, only?: ReadonlySet<string>): string {
  if (!row) return 'null';
  const entries = columns
    .filter(({ name }) => row.has(name) && (!only || only.has(name)))
    .map(({ name, type }) => {
      const value = row.get(name) ?? null;
      const isJson = value !== null && (type === 'json' || type === 'jsonb');
      return `${JSON.stringify(name)}:${isJson ? value : JSON.stringify(value)}`;
    });
  return `{${entries.join(',')}}`;
}
