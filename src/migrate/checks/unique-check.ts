// Finds values that occur more than once where they may not.
import type { DesiredIndex } from '../schema/indexes.ts';
import { quoteIdent, raw } from '../../postgres/sql.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import type { DesiredTable } from '../schema/desired.ts';
import { problem, type MigrationProblem } from '../problem.ts';
import { clip, counted, inOneLine, SAMPLES } from './samples.ts';
import { keySql } from '../schema/sql/index-sql.ts';
import { nameOf } from '../schema/model.ts';
import type { Key } from '../schema/relation.ts';

/** Everything that must be unique in the table. */
export function uniquesOf({ keys, indexes }: DesiredTable): Unique[] {
  return [...keys.map(uniqueOfKey), ...indexes.filter((index) => index.unique).map(uniqueOfIndex)];
}

export type Unique = {
  /** Columns that it names. */
  readonly columns: readonly string[];
  /** What must be unique together, as SQL. */
  readonly keys: readonly string[];
  /** The keys are the columns. */
  readonly plain: boolean;
  readonly where: string | null;
  /** Two nulls are equal. */
  readonly nullsNotDistinct: boolean;
};

export function uniqueOfKey({ columns, nullsNotDistinct }: Key): Unique {
  return { columns, keys: columns.map(quoteIdent), plain: true, where: null, nullsNotDistinct };
}

export function uniqueOfIndex({ columns, plain, model, predicate }: DesiredIndex): Unique {
  return {
    columns,
    keys: model.columns.map(keySql),
    plain,
    where: predicate?.sql ?? null,
    nullsNotDistinct: model.nullsNotDistinct === true,
  };
}

/** `rowsOf`: checked in place of the table itself. */
export async function checkUnique(
  session: Queryable,
  table: DesiredTable,
  { keys: names, where, nullsNotDistinct }: Unique,
  at: string,
  rowsOf: string = nameOf(table),
): Promise<MigrationProblem[]> {
  const conditions = [
    ...(nullsNotDistinct ? [] : names.map((name) => `${name} is not null`)),
    ...(where === null ? [] : [`(\n${where}\n)`]),
  ];
  const filter = conditions.length === 0 ? 'true' : conditions.join(' and ');
  const shown = names.map((name) => `coalesce(${name}::text, 'NULL')`).join(` || ', ' || `);
  const said = names.map((name) => inOneLine(name).replace(/^"(\w+)"$/, '$1'));
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
      `unique over (${said.join(', ')}), but ${counted(total, 'value occurs', 'values occur')} more than once (${samples}${total > rows.length ? ' …' : ''})`,
      `Find them: select ${names.join(', ')}, count(*) from ${nameOf(table)} group by ${names.join(', ')} having count(*) > 1;`,
    ),
  ];
}
