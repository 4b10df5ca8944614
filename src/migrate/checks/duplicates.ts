// Values that occur twice where they may not, and how findings about rows are written.
import { quoteIdent, raw } from '../../postgres/sql.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import type { DesiredTable } from '../schema/desired.ts';
import { problem, type MigrationProblem } from '../problem.ts';
import { nameOf } from '../schema/qualified-name.ts';

export const SAMPLES = 3;

/** `rowsOf`: what to look at instead of the table as it is. */
export async function probeDuplicates(
  session: Queryable,
  table: DesiredTable,
  columns: readonly string[],
  where: string | null,
  at: string,
  rowsOf: string = nameOf(table),
): Promise<MigrationProblem[]> {
  const names = columns.map(quoteIdent);
  const filter = [
    ...names.map((name) => `${name} is not null`),
    ...(where === null ? [] : [`(\n${where}\n)`]),
  ].join(' and ');
  const shown = names.map((name) => `${name}::text`).join(` || ', ' || `);
  const rows = await session.query<{ value: string; times: string; values: string }>(
    raw(
      `select ${shown} as value, count(*)::text as times, (count(*) over ())::text as values from ${rowsOf} where ${filter} group by ${names.join(', ')} having count(*) > 1 order by count(*) desc, 1 limit ${SAMPLES}`,
    ),
  );
  const [first] = rows;
  if (!first) return [];
  const samples = rows.map((row) => `"${cut(row.value)}" ×${row.times}`).join(', ');
  const total = Number(first.values);
  return [
    problem(
      'MIG-202',
      at,
      `unique over (${columns.join(', ')}), but ${count(total)} ${total === 1 ? 'value occurs' : 'values occur'} more than once (${samples}${total > rows.length ? ' …' : ''})`,
      `Find them: select ${names.join(', ')}, count(*) from ${nameOf(table)} group by ${names.join(', ')} having count(*) > 1;`,
    ),
  ];
}

export function count(value: number): string {
  return value.toLocaleString('en-US');
}

const LONGEST_SAMPLE = 60;

export function cut(text: string | null): string {
  const shown = text ?? 'null';
  return shown.length > LONGEST_SAMPLE ? `${shown.slice(0, LONGEST_SAMPLE)}…` : shown;
}
