// Checks the values that a backfill, or the default of a new column, would write against the constraints of the table before a row is written: large
// tables are filled outside the transaction, where a refusal would come too late to change nothing.
import { quoteIdent, raw } from '../../postgres/sql.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import type { DesiredColumn, DesiredTable } from '../schema/desired.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import { problem, type MigrationProblem } from '../problem.ts';
import { counted, countRows, countWhere, formatCount, inOneLine, isFilled } from './samples.ts';
import { checkUnique, uniquesOf } from './unique-check.ts';
import { nameOf } from '../schema/model.ts';

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

/** The same for the default of a new column, where it is one value for all rows. What differs from row to row is known afterwards. */
export async function checkDefault(
  session: Queryable,
  table: DesiredTable,
  live: LiveTable,
  column: DesiredColumn,
): Promise<MigrationProblem[]> {
  const value = column.default?.sql;
  if (value === undefined || !(await isFilled(session, table))) return [];
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
  /** An expression. */
  readonly value: string;
  /** It is the same in all rows, of which there is one at least. */
  readonly isConstant: boolean;
  /** Where problems are. */
  readonly at: string;
};

async function checkFill(session: Queryable, fill: Fill): Promise<MigrationProblem[]> {
  const { table, live, column, at } = fill;
  const name = quoteIdent(column.name);
  const known = (columns: readonly string[]): boolean =>
    columns.includes(column.name) && columns.every((one) => one === column.name || live.columns.has(one));
  const isOfValue = (columns: readonly string[]): boolean =>
    fill.isConstant && columns.every((one) => one === column.name);
  // For what depends on the value alone no table has to be read.
  const rowsFor = (columns: readonly string[]): string =>
    isOfValue(columns) ? oneRow(fill) : rowsAfterFill(fill);
  const said = (columns: readonly string[], bad: number): string =>
    isOfValue(columns) ? 'every row' : counted(bad, 'row', 'rows');
  await session.query(raw('savepoint svc_fill'));
  try {
    const problems: MigrationProblem[] = [];
    const itself = [column.name];
    const empty = await countWhere(session, rowsFor(itself), `${name} is null`);
    if (empty > 0 && column.notNull)
      problems.push(
        problem(
          'MIG-201',
          at,
          `required, but ${said(itself, empty)} would still be NULL`,
          'Make the expression give every row a value, for example with coalesce.',
        ),
      );
    for (const unique of uniquesOf(table)) {
      if (!known(unique.columns)) continue;
      if (isOfValue(unique.columns) && unique.where === null) {
        if (empty === 0 || unique.nullsNotDistinct)
          problems.push(...(await checkSameInAll(session, table, column)));
        continue;
      }
      const [found] = await checkUnique(session, table, unique, at, rowsAfterFill(fill));
      if (found) problems.push({ ...found, hint: 'Give each row a value of its own with backfill.' });
    }
    for (const check of table.checks.filter(({ columns, notValid }) => known(columns) && !notValid)) {
      const wrong = `not coalesce((\n${check.expression.sql}\n), true)`;
      const bad = await countWhere(session, rowsFor(check.columns), wrong);
      if (bad > 0)
        problems.push(
          problem(
            'MIG-204',
            at,
            `${said(check.columns, bad)} would be against the ${check.role} ${check.expression.written}`,
            'Give these rows another value.',
          ),
        );
    }
    for (const key of table.foreignKeys.filter(({ columns }) => known(columns))) {
      const names = key.columns.map((one) => `${quoteIdent(table.name)}.${quoteIdent(one)}`);
      const isWhole = names.map((one) => `${one} is not null`).join(' and ');
      const isEqual = names.map((one, n) => `svc_target.${quoteIdent(key.targetColumns[n] ?? '')} = ${one}`);
      const target = nameOf({ schema: key.targetSchema, name: key.targetTable });
      const bad = await countWhere(
        session,
        rowsFor(key.columns),
        `${isWhole} and not exists (select from ${target} svc_target where ${isEqual.join(' and ')})`,
      );
      if (bad > 0)
        problems.push(
          problem(
            'MIG-203',
            at,
            `${said(key.columns, bad)} would point to missing ${key.targetTable}`,
            'Give these rows the key of a row that is there.',
          ),
        );
    }
    return problems;
  } catch (error) {
    if (!isDatabaseError(error, 'data_exception')) throw error;
    await session.query(raw('rollback to savepoint svc_fill'));
    // Where the type changes, the former values may be the reason; the check of the type change finds these.
    if (live.columns.get(column.name)?.type !== column.type && live.columns.has(column.name)) return [];
    return [
      problem('MIG-208', at, `the value cannot be computed: ${error.message}`, 'Correct the expression.'),
    ];
  }
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
      'Drop the default, or give each row a value with backfill.',
    ),
  ];
}

/** As PostgreSQL decides it when it adds such a column: nothing volatile is called. Asked of the parsed expression, not by calling it. */
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

/** The new value alone, under the name of the table. */
function oneRow({ table, column, value }: Fill): string {
  const name = quoteIdent(column.name);
  return `(select (\n${value}\n)::${column.typeSql} as ${name}) as ${quoteIdent(table.name)}`;
}

/** The table's rows under its own name, as they are once the column is filled. */
function rowsAfterFill({ table, live, column, value }: Fill): string {
  const name = quoteIdent(column.name);
  const filled = live.columns.has(column.name)
    ? `coalesce(${name}::${column.typeSql}, (\n${value}\n)::${column.typeSql})`
    : `(\n${value}\n)::${column.typeSql}`;
  const others = [...live.columns.keys()].filter((one) => one !== column.name).map(quoteIdent);
  return `(select ${[...others, `${filled} as ${name}`].join(', ')} from ${nameOf(table)}) as ${quoteIdent(table.name)}`;
}
