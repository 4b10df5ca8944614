// Checks the values that a backfill would write against the constraints of the table before a row is written: large
// tables are filled outside the transaction, where a refusal would come too late to change nothing.
import { quoteIdent, raw } from '../../postgres/sql.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import type { DesiredColumn, DesiredTable } from '../schema/desired.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import { problem, type MigrationProblem } from '../problem.ts';
import { counted, countWhere } from './samples.ts';
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
  const rows = rowsAfterFill(table, live, column, backfill);
  const known = (columns: readonly string[]): boolean =>
    columns.includes(column.name) && columns.every((name) => name === column.name || live.columns.has(name));
  await session.query(raw('savepoint svc_fill'));
  try {
    const problems: MigrationProblem[] = [];
    const empty = await countWhere(session, rows, `${quoteIdent(column.name)} is null`);
    if (empty > 0 && column.notNull)
      problems.push(
        problem(
          'MIG-201',
          at,
          `required, but ${counted(empty, 'row', 'rows')} would still be NULL`,
          'Make the expression give every row a value, for example with coalesce.',
        ),
      );
    for (const unique of uniquesOf(table)) {
      if (!known(unique.columns)) continue;
      const [found] = await checkUnique(session, table, unique, at, rows);
      if (found) problems.push({ ...found, hint: 'Give each row a value of its own with backfill.' });
    }
    for (const check of table.checks.filter(({ columns, notValid }) => known(columns) && !notValid)) {
      const bad = await countWhere(session, rows, `not coalesce((\n${check.expression.sql}\n), true)`);
      if (bad > 0)
        problems.push(
          problem(
            'MIG-204',
            at,
            `${counted(bad, 'row', 'rows')} would be against the ${check.role} ${check.expression.written}`,
            'Give these rows another value.',
          ),
        );
    }
    for (const key of table.foreignKeys.filter(({ columns }) => known(columns))) {
      const names = key.columns.map((one) => `${quoteIdent(table.name)}.${quoteIdent(one)}`);
      const isWhole = names.map((name) => `${name} is not null`).join(' and ');
      const isEqual = names.map(
        (name, n) => `svc_target.${quoteIdent(key.targetColumns[n] ?? '')} = ${name}`,
      );
      const target = nameOf({ schema: key.targetSchema, name: key.targetTable });
      const bad = await countWhere(
        session,
        rows,
        `${isWhole} and not exists (select from ${target} svc_target where ${isEqual.join(' and ')})`,
      );
      if (bad > 0)
        problems.push(
          problem(
            'MIG-203',
            at,
            `${counted(bad, 'row', 'rows')} would point to missing ${key.targetTable}`,
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

/** The table's rows under its own name, as they are once the column is filled. */
function rowsAfterFill(table: DesiredTable, live: LiveTable, column: DesiredColumn, value: string): string {
  const name = quoteIdent(column.name);
  const filled = live.columns.has(column.name)
    ? `coalesce(${name}::${column.typeSql}, (\n${value}\n)::${column.typeSql})`
    : `(\n${value}\n)::${column.typeSql}`;
  const others = [...live.columns.keys()].filter((one) => one !== column.name).map(quoteIdent);
  return `(select ${[...others, `${filled} as ${name}`].join(', ')} from ${nameOf(table)}) as ${quoteIdent(table.name)}`;
}
