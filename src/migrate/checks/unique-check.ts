// Finds duplicate values that violate a unique key or index.
import type { DesiredIndex } from '../schema/indexes.ts';
import { quoteIdent, raw } from '../../postgres/sql.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import type { DesiredTable } from '../schema/desired.ts';
import { problem, type MigrationProblem } from '../problem.ts';
import { formatQuantity, inOneLine, pasteableSql } from './samples.ts';
import { keySql } from '../schema/sql/index-sql.ts';
import { quoteName } from '../schema/model.ts';
import type { Key } from '../schema/relation.ts';

/** Returns the unique keys and indexes of the table. */
export function tableUniqueRules({ keys, indexes }: DesiredTable): UniqueRule[] {
  return [...keys.map(keyRule), ...indexes.filter((index) => index.unique).map(indexRule)];
}

export type UniqueRule = {
  /** Columns that the rule names. */
  readonly columns: readonly string[];
  /** Elements that must be unique together, as SQL. */
  readonly keys: readonly string[];
  /** True if the keys are columns. */
  readonly plain: boolean;
  readonly where: string | null;
  readonly nullsNotDistinct: boolean;
};

export function keyRule({ columns, nullsNotDistinct }: Key): UniqueRule {
  return { columns, keys: columns.map(quoteIdent), plain: true, where: null, nullsNotDistinct };
}

export function indexRule({ columns, plain, model, predicate }: DesiredIndex): UniqueRule {
  return {
    columns,
    keys: model.columns.map(keySql),
    plain,
    where: predicate?.sql ?? null,
    nullsNotDistinct: model.nullsNotDistinct === true,
  };
}

/** `source`: FROM item to check, by default the table. */
export async function checkUnique(
  session: Queryable,
  table: DesiredTable,
  { keys: names, where, nullsNotDistinct }: UniqueRule,
  at: string,
  source: string = quoteName(table),
): Promise<MigrationProblem[]> {
  const conditions = [
    ...(nullsNotDistinct ? [] : names.map((name) => `${name} is not null`)),
    ...(where === null ? [] : [`(\n${where}\n)`]),
  ];
  const filter = conditions.length === 0 ? 'true' : conditions.join(' and ');
  const shown = names.map((name) => inOneLine(name).replace(/^"(\w+)"$/, '$1'));
  const grouped = `from ${source} where ${filter} group by ${names.join(', ')} having count(*) > 1`;
  const [row] = await session.query<{ values: string }>(
    raw(`select count(*)::text as values from (select ${grouped}) svc_values`),
  );
  const total = Number(row?.values ?? 0);
  if (total === 0) return [];
  return [
    problem(
      'MIG-202',
      at,
      `unique over (${shown.join(', ')}), but ${formatQuantity(total, 'value occurs', 'values occur')} more than once`,
      `Find them: select ${names.join(', ')}, count(*) ${pasteableSql(grouped)};`,
    ),
  ];
}
