// The statement that evaluates filters on rows.
import { join, sql, type Sql } from '../../../postgres/sql.ts';
import { toSql } from './condition-test.ts';
import type { Condition } from './filter.ts';
import type { PublishedTable } from '../../tables/published-tables.ts';
import { recordsSource, type RowTexts } from '../../tables/row-values.ts';

/** A condition that only PostgreSQL can evaluate. */
export type DatabaseFilter = {
  readonly condition: Condition;
  /** Type of its column in SQL. */
  readonly sqlType: string;
  /** Filters with the same key have the same results. */
  readonly key: string;
};

/** Selects, for each row, the numbers of the filters that match. A deleted row is represented by its old values. */
export function filterQuery(
  table: PublishedTable,
  rows: readonly RowTexts[],
  filters: readonly DatabaseFilter[],
): Sql {
  const holds = filters.map(
    ({ condition, sqlType }, n) =>
      sql`case when case when x.is_new then ${toSql(condition, 'n', sqlType)}
        else ${toSql(condition, 'o', sqlType)} end then ${n}::integer end`,
  );
  return sql`select array_to_json(array_remove(array[${join(holds)}], null))
    from ${recordsSource(table, rows)}
    order by x.n`;
}
