// Converts the texts of the write-ahead log to JSON. PostgreSQL does it, because it knows every type.
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import type { Relation, RowChange, Tuple } from '../../postgres/replication/pgoutput.ts';
import { ident, join, raw, sql, type Sql } from '../../postgres/sql.ts';
import { tableIdent, type PublishedTable } from './published-tables.ts';

/** Values by column. A column with an unknown value is missing. */
export type TextRow = ReadonlyMap<string, string | null>;
/** Texts of JSON values by column. */
export type JsonRow = ReadonlyMap<string, string>;

export type RowTexts = { readonly new: TextRow | undefined; readonly old: TextRow | undefined };
export type RowJson = { readonly new: JsonRow | undefined; readonly old: JsonRow | undefined };

/** Returns the values in the WAL. `missing`: columns of the new row that the WAL omits. */
export function readTexts(
  relation: Relation,
  change: RowChange,
  table: PublishedTable,
): RowTexts & { readonly missing: readonly string[] } {
  const whole = change.isWholeOld && change.old ? toRow(relation, change.old) : undefined;
  const old = whole ?? (change.old && toRow(relation, change.old, true));
  if (!change.new) return { new: undefined, old, missing: [] };
  const now = toRow(relation, change.new);
  // The old row contains the large values that did not change, if the WAL contains the whole old row.
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

/** Reads, by primary key, the values that the WAL omits: large values that did not change, and generated columns. */
export async function readMissing(
  owner: OwnerDatabase,
  table: PublishedTable,
  rows: ReadonlyArray<{ readonly new: TextRow; readonly missing: readonly string[] }>,
): Promise<TextRow[]> {
  const columns = [...new Set(rows.flatMap(({ missing }) => missing))];
  const key = new Set(table.key);
  const keys = `[${rows.map((row, n) => `{"n":${n},"k":${toJson(table, row.new, key)}}`).join(',')}]`;
  const found = await owner.query<{ n: number; values: Array<string | null> }>(sql`
    select x.n, array[${join(columns.map((name) => sql`t.${ident(name)}::text`))}] as values
    from jsonb_to_recordset(${keys}::jsonb) x(n integer, k jsonb),
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
    join(table.columns.map(({ name }) => sql`to_json(${ident(alias, name)})::text`));
  const found = await owner.query<{
    n: number;
    new: Array<string | null>;
    old: Array<string | null>;
  }>(sql`
    select x.n, array[${values('n')}] as new, array[${values('o')}] as old
    from ${recordsSource(table, rows)}
    order by x.n`);
  return found.map((record, at) => ({
    new: toJsonRow(table, rows[at]?.new, record.new),
    old: toJsonRow(table, rows[at]?.old, record.old),
  }));
}

/**
 * Renders the new and old rows as `n` and `o`, numbered by `x.n`. `x.is_new` is true where a new row exists. The input
 * function of its type parses each value. A JSON record would reject values that a json column accepts, such as the
 * escape \u0000.
 */
export function recordsSource(table: PublishedTable, rows: readonly RowTexts[]): Sql {
  const { columns } = table;
  const numbers = rows.map((_, n) => n);
  const isNew = rows.map((row) => row.new !== undefined);
  const names = join(columns.map((_, at) => ident(`c${at}`)));
  const texts = (pick: (row: RowTexts) => TextRow | undefined): Sql =>
    join(columns.map(({ name }) => sql`${rows.map((row) => pick(row)?.get(name) ?? null)}::text[]`));
  // A missing row is null here, and a domain may reject null.
  const typed = (alias: string): Sql =>
    join(
      columns.map(({ name, sqlType }, at) => {
        const text = ident(alias, `c${at}`);
        return sql`case when ${text} is not null then ${text}::${raw(sqlType)} end as ${ident(name)}`;
      }),
    );
  return sql`unnest(${numbers}::integer[], ${isNew}::boolean[], ${texts((row) => row.new)}) x(n, is_new, ${names})
    join unnest(${numbers}::integer[], ${texts((row) => row.old)}) y(n, ${names}) on y.n = x.n,
    lateral (select ${typed('x')}) n, lateral (select ${typed('y')}) o`;
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
    // Clients expect bytes as hexadecimal without a prefix.
    row.set(name, type === 'bytea' ? value.replace(String.raw`\\x`, '') : value);
  });
  return row;
}

/** Renders an object for `jsonb_populate_record`. All values are text except JSON, which must not be quoted. */
function toJson({ columns }: PublishedTable, row: TextRow, only: ReadonlySet<string>): string {
  const entries = columns
    .filter(({ name }) => row.has(name) && only.has(name))
    .map(({ name, type }) => {
      const value = row.get(name) ?? null;
      const isJson = value !== null && (type === 'json' || type === 'jsonb');
      return `${JSON.stringify(name)}:${isJson ? value : JSON.stringify(value)}`;
    });
  return `{${entries.join(',')}}`;
}
