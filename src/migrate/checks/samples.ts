// Counts rows and formats messages about them. Messages contain counts, key columns and queries, but no values.
import { quoteIdent, raw } from '../../postgres/sql.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import type { DesiredTable } from '../schema/desired.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import { quoteName } from '../schema/model.ts';

export async function hasRows(
  session: Queryable,
  table: { readonly schema: string; readonly name: string },
): Promise<boolean> {
  const [row] = await session.query<{ filled: boolean }>(
    raw(`select exists (select from ${quoteName(table)}) as filled`),
  );
  return row?.filled ?? false;
}

export async function countRows(
  session: Queryable,
  table: DesiredTable,
  where: string,
): Promise<{ bad: number; all: number }> {
  const [row] = await session.query<{ bad: string; all: string }>(
    raw(
      `select count(*) filter (where ${where})::text as bad, count(*)::text as all from ${quoteName(table)}`,
    ),
  );
  return { bad: Number(row?.bad ?? 0), all: Number(row?.all ?? 0) };
}

/** Returns ` (key column id)`, or an empty string for a table without a primary key. */
export function keyNote({ keys }: LiveTable): string {
  const columns = keys.find((key) => key.kind === 'primary')?.columns ?? [];
  if (columns.length === 0) return '';
  return ` (key ${columns.length === 1 ? 'column' : 'columns'} ${columns.join(', ')})`;
}

/** Returns a statement that selects the rows. `rows` is a table or a named sub-select. */
export function findRowsSql(rows: string, where: string): string {
  return `select * from ${pasteableSql(rows)} where ${pasteableSql(where)};`;
}

/** Returns an example statement that updates the rows. The default value is null if the column allows it. */
export function updateRowsSql(
  table: { readonly schema: string; readonly name: string },
  column: { readonly name: string; readonly type: string; readonly notNull: boolean },
  { value, where }: { readonly value?: string | undefined; readonly where: string },
): string {
  const set = value ?? (column.notNull ? exampleValue(column.type) : 'null');
  return `update ${quoteName(table)} set ${quoteIdent(column.name)} = ${set} where ${pasteableSql(where)};`;
}

/** Returns the SQL in one line, unless it contains a comment that needs the line breaks. */
export function pasteableSql(text: string): string {
  return text.includes('--') ? text : text.replaceAll('(\n', '(').replaceAll('\n)', ')');
}

/** Counts the rows that satisfy the condition. `rows` is a table or a named sub-select. */
export async function countWhere(session: Queryable, rows: string, where: string): Promise<number> {
  const [row] = await session.query<{ bad: string }>(
    raw(`select count(*)::text as bad from ${rows} where ${where}`),
  );
  return Number(row?.bad ?? 0);
}

/** Returns an expression for use in a sentence: in one line, without enclosing parentheses. */
export function inOneLine(expression: string): string {
  return expression.replaceAll('\n', ' ').replace(/^\( (.*) \)$/s, '$1');
}

/** Returns text such as `1 row` or `48,210 rows`. */
export function formatQuantity(value: number, singular: string, many: string): string {
  return `${formatCount(value)} ${value === 1 ? singular : many}`;
}

export function formatCount(value: number): string {
  return value.toLocaleString('en-US');
}

const EXAMPLES: ReadonlyArray<readonly [RegExp, string]> = [
  [/^(small|big)?int|^integer|^numeric|^decimal|^real|^double|^float/i, '0'],
  [/^bool/i, 'false'],
  [/^(timestamp|date)/i, 'now()'],
  [/^uuid/i, 'gen_random_uuid()'],
  [/^jsonb?/i, "'{}'"],
  [/\]$/, "'{}'"],
];

export function exampleValue(type: string): string {
  return EXAMPLES.find(([pattern]) => pattern.test(type))?.[1] ?? "'…'";
}
