// Counting and sampling rows, and how findings about them are written.
import { quoteIdent, raw } from '../../postgres/sql.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import type { DesiredTable } from '../schema/desired.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import { nameOf } from '../schema/model.ts';

export const SAMPLES = 3;

export async function isFilled(
  session: Queryable,
  table: { readonly schema: string; readonly name: string },
): Promise<boolean> {
  const [row] = await session.query<{ filled: boolean }>(
    raw(`select exists (select from ${nameOf(table)}) as filled`),
  );
  return row?.filled ?? false;
}

export async function countRows(
  session: Queryable,
  table: DesiredTable,
  where: string,
): Promise<{ bad: number; all: number }> {
  const [row] = await session.query<{ bad: string; all: string }>(
    raw(`select count(*) filter (where ${where})::text as bad, count(*)::text as all from ${nameOf(table)}`),
  );
  return { bad: Number(row?.bad ?? 0), all: Number(row?.all ?? 0) };
}

/** ` (id 4, 9, 17 …)`: primary keys of the rows; empty without a primary key. */
export async function sampleKeys(
  session: Queryable,
  table: { readonly schema: string; readonly name: string },
  live: LiveTable,
  where: string,
): Promise<string> {
  const key = live.keys.find((one) => one.kind === 'primary')?.columns ?? [];
  if (key.length === 0) return '';
  const columns = key.map((column) => `${quoteIdent(column)}::text`).join(` || ', ' || `);
  const rows = await session.query<{ key: string }>(
    raw(
      `select ${columns} as key from ${nameOf(table)} where ${where} order by ${key.map(quoteIdent).join(', ')} limit ${SAMPLES + 1}`,
    ),
  );
  const shown = rows.slice(0, SAMPLES).map((row) => row.key);
  return ` (${key.join(', ')} ${shown.join(', ')}${rows.length > SAMPLES ? ' …' : ''})`;
}

/** How many of `rows`, a table or a sub-select with a name, meet the condition. */
export async function countWhere(session: Queryable, rows: string, where: string): Promise<number> {
  const [row] = await session.query<{ bad: string }>(
    raw(`select count(*)::text as bad from ${rows} where ${where}`),
  );
  return Number(row?.bad ?? 0);
}

/** The values of an expression, clipped; one more than is shown, so that the reader learns that there are others. */
export async function sampleValues(
  session: Queryable,
  rows: string,
  expression: string,
  where: string,
): Promise<{ readonly values: readonly string[]; readonly more: string }> {
  const found = await session.query<{ value: string }>(
    raw(
      `select distinct ${expression}::text as value from ${rows} where ${where} order by 1 limit ${SAMPLES + 1}`,
    ),
  );
  const values = found.slice(0, SAMPLES).map((one) => clip(one.value));
  return { values, more: found.length > SAMPLES ? ' …' : '' };
}

/** An expression as a sentence names it: in one line, without brackets around all of it. */
export function inOneLine(expression: string): string {
  return expression.replaceAll('\n', ' ').replace(/^\( (.*) \)$/s, '$1');
}

/** `1 row`, `48,210 rows`. */
export function counted(value: number, one: string, many: string): string {
  return `${formatCount(value)} ${value === 1 ? one : many}`;
}

export function formatCount(value: number): string {
  return value.toLocaleString('en-US');
}

const LONGEST_SAMPLE = 60;

export function clip(text: string | null): string {
  const shown = text ?? 'null';
  return shown.length > LONGEST_SAMPLE ? `${shown.slice(0, LONGEST_SAMPLE)}…` : shown;
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
