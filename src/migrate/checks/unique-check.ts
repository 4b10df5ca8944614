// Finds values that occur more than once where they may not.
import { quoteIdent, raw } from '../../postgres/sql.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import type { DesiredIndex, DesiredTable } from '../schema/desired.ts';
import { problem, type MigrationProblem } from '../problem.ts';
import { clip, counted, SAMPLES } from './samples.ts';
import { nameOf } from '../schema/model.ts';

/** Everything that must be unique in the table. */
export function uniquesOf({ keys, indexes }: DesiredTable): Pick<DesiredIndex, 'columns' | 'predicate'>[] {
  return [
    ...keys.map(({ columns }) => ({ columns, predicate: null })),
    ...indexes.filter((index) => index.unique),
  ];
}

/** `rowsOf`: checked in place of the table itself. */
export async function checkUnique(
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
  const samples = rows.map((row) => `"${clip(row.value)}" ×${row.times}`).join(', ');
  const total = Number(first.values);
  return [
    problem(
      'MIG-202',
      at,
      `unique over (${columns.join(', ')}), but ${counted(total, 'value occurs', 'values occur')} more than once (${samples}${total > rows.length ? ' …' : ''})`,
      `Find them: select ${names.join(', ')}, count(*) from ${nameOf(table)} group by ${names.join(', ')} having count(*) > 1;`,
    ),
  ];
}
