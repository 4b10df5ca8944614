// Checks the values of a backfill, or of the default of a new column, against the constraints of the table. Large
// tables are filled outside of the transaction, so a violation must be found before any change.
import { quoteIdent, raw } from '../../postgres/sql.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import type { DesiredColumn, DesiredTable } from '../schema/desired.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import { problem, type MigrationProblem } from '../problem.ts';
import { formatQuantity, countRows, countWhere, formatCount, inOneLine, hasRows } from './samples.ts';
import { checkUnique, tableUniqueRules } from './unique-check.ts';
import { quoteName } from '../schema/model.ts';

export async function checkBackfill(
  session: Queryable,
  table: DesiredTable,
  live: LiveTable,
  column: DesiredColumn,
): Promise<MigrationProblem[]> {
  const { backfill } = column.model;
  if (backfill === null) return [];
  const at = `${column.at}.backfill`;
  return await checkFill(session, { table, live, column, value: backfill, isConstant: false, at });
}

/** Checks the default of a new column if it is constant. Other defaults are checked when the column is added. */
export async function checkDefault(
  session: Queryable,
  table: DesiredTable,
  live: LiveTable,
  column: DesiredColumn,
): Promise<MigrationProblem[]> {
  const value = column.default?.sql;
  if (value === undefined || !(await hasRows(session, table))) return [];
  if (!(await isConstant(session, column, value))) return [];
  return await checkFill(session, {
    table,
    live,
    column,
    value,
    isConstant: true,
    at: `${column.at}.default`,
  });
}

type Fill = {
  readonly table: DesiredTable;
  readonly live: LiveTable;
  readonly column: DesiredColumn;
  /** SQL expression. */
  readonly value: string;
  /** True if all rows get the same value. The table then has at least one row. */
  readonly isConstant: boolean;
  /** Path of the problems in the file. */
  readonly at: string;
};

async function checkFill(session: Queryable, fill: Fill): Promise<MigrationProblem[]> {
  const { table, live, column, at } = fill;
  const name = quoteIdent(column.name);
  const known = (columns: readonly string[]): boolean =>
    columns.includes(column.name) &&
    columns.every((columnName) => columnName === column.name || live.columns.has(columnName));
  const dependsOnlyOnValue = (columns: readonly string[]): boolean =>
    fill.isConstant && columns.every((columnName) => columnName === column.name);
  // The table is not read for constraints that depend only on the value.
  const rowsFor = (columns: readonly string[]): string =>
    dependsOnlyOnValue(columns) ? oneRow(fill) : rowsAfterFill(fill);
  const describeRows = (columns: readonly string[], bad: number): string =>
    dependsOnlyOnValue(columns) ? 'every row' : formatQuantity(bad, 'row', 'rows');
  await session.query(raw('savepoint svc_fill'));
  try {
    const problems: MigrationProblem[] = [];
    const ownColumn = [column.name];
    const empty = await countWhere(session, rowsFor(ownColumn), `${name} is null`);
    if (empty > 0 && column.notNull)
      problems.push(
        problem(
          'MIG-201',
          at,
          `required, but ${describeRows(ownColumn, empty)} would still be NULL`,
          'Make the expression give every row a value, for example with coalesce.',
        ),
      );
    for (const unique of tableUniqueRules(table)) {
      if (!known(unique.columns)) continue;
      if (dependsOnlyOnValue(unique.columns) && unique.where === null) {
        if (empty === 0 || unique.nullsNotDistinct)
          problems.push(...(await checkSameInAll(session, table, column)));
        continue;
      }
      const [found] = await checkUnique(session, table, unique, at, rowsAfterFill(fill));
      if (found) problems.push({ ...found, hint: 'Give each row a different value with backfill.' });
    }
    for (const check of table.checks.filter(({ columns, notValid }) => known(columns) && !notValid)) {
      const wrong = `not coalesce((\n${check.expression.sql}\n), true)`;
      const bad = await countWhere(session, rowsFor(check.columns), wrong);
      if (bad > 0)
        problems.push(
          problem(
            'MIG-204',
            at,
            `${describeRows(check.columns, bad)} would violate the ${check.role} ${check.expression.written}`,
            'Give these rows another value.',
          ),
        );
    }
    for (const key of table.foreignKeys.filter(({ columns }) => known(columns))) {
      const bad = await countWhere(session, rowsFor(key.columns), hasNoTarget(table, key));
      if (bad > 0)
        problems.push(
          problem(
            'MIG-203',
            at,
            `${describeRows(key.columns, bad)} would point to missing ${key.targetTable}`,
            'Use keys of existing rows for these rows.',
          ),
        );
    }
    return problems;
  } catch (error) {
    if (!isDatabaseError(error, 'data_exception')) throw error;
    await session.query(raw('rollback to savepoint svc_fill'));
    // If the type changes, the existing values may be the cause. The check of the type change reports them.
    if (live.columns.get(column.name)?.type !== column.type && live.columns.has(column.name)) return [];
    return [
      problem('MIG-208', at, `the value cannot be computed: ${error.message}`, 'Correct the expression.'),
    ];
  }
}

/** Returns the condition for rows whose foreign key points to no row. */
function hasNoTarget(table: DesiredTable, key: DesiredTable['foreignKeys'][number]): string {
  const names = key.columns.map((columnName) => `${quoteIdent(table.name)}.${quoteIdent(columnName)}`);
  const isWhole = names.map((columnSql) => `${columnSql} is not null`).join(' and ');
  const isEqual = names.map(
    (columnSql, n) => `svc_target.${quoteIdent(key.targetColumns[n] ?? '')} = ${columnSql}`,
  );
  const target = quoteName({ schema: key.targetSchema, name: key.targetTable });
  return `${isWhole} and not exists (select from ${target} svc_target where ${isEqual.join(' and ')})`;
}

async function checkSameInAll(
  session: Queryable,
  table: DesiredTable,
  column: DesiredColumn,
): Promise<MigrationProblem[]> {
  const { all } = await countRows(session, table, 'false');
  if (all < 2) return [];
  return [
    problem(
      'MIG-202',
      `${column.at}.unique`,
      `unique, but ${formatCount(all)} rows would all get the default ${inOneLine(column.default?.written ?? '')}`,
      'Remove the default, or give each row a different value with backfill.',
    ),
  ];
}

/**
 * Returns whether the default calls no volatile function, the criterion of PostgreSQL for adding a column without
 * rewriting the table. Reads the parsed expression and does not evaluate it.
 */
async function isConstant(session: Queryable, column: DesiredColumn, value: string): Promise<boolean> {
  await session.query(raw('savepoint svc_default'));
  await session.query(
    raw(`create temporary table svc_default (value ${column.typeSql} default (\n${value}\n))`),
  );
  const [found] = await session.query<{ volatile: boolean }>(
    raw(`select exists (
        select from regexp_matches(d.adbin::text, ':(?:op)?funcid (\\d+)', 'g') called
          join pg_proc p on p.oid = called[1]::oid where p.provolatile = 'v') as volatile
      from pg_attrdef d where d.adrelid = 'pg_temp.svc_default'::regclass`),
  );
  await session.query(raw('rollback to savepoint svc_default'));
  return found?.volatile === false;
}

/** Returns a FROM item with one row that contains only the new value, under the name of the table. */
function oneRow({ table, column, value }: Fill): string {
  const name = quoteIdent(column.name);
  return `(select (\n${value}\n)::${column.typeSql} as ${name}) as ${quoteIdent(table.name)}`;
}

/** Returns a FROM item with the rows of the table after the fill, under the name of the table. */
function rowsAfterFill({ table, live, column, value }: Fill): string {
  const name = quoteIdent(column.name);
  const filled = live.columns.has(column.name)
    ? `coalesce(${name}::${column.typeSql}, (\n${value}\n)::${column.typeSql})`
    : `(\n${value}\n)::${column.typeSql}`;
  const otherColumns = [...live.columns.keys()]
    .filter((columnName) => columnName !== column.name)
    .map(quoteIdent);
  return (
    `(select ${[...otherColumns, `${filled} as ${name}`].join(', ')} from ` +
    `${quoteName(table)}) as ${quoteIdent(table.name)}`
  );
}
