// A foreign key compares two columns: of their types the server must know how. Asked before anything is changed,
// with two empty tables in a transaction that is rolled back.
import type { Queryable } from '../postgres/owner-database.ts';
import { raw } from '../postgres/sql.ts';
import { columnKey, type Desired, type OutsideTypes } from './desired.ts';
import { isDatabaseError } from './elaborate.ts';
import { problem, type MigrationProblem } from './problem.ts';

export async function incompatibleReferences(
  session: Queryable,
  desired: Desired,
  outside: OutsideTypes,
): Promise<MigrationProblem[]> {
  const types = new Map<string, string>(outside);
  for (const table of desired.tables) {
    for (const column of table.columns)
      types.set(columnKey(table.schema, table.name, column.name), column.type);
  }
  const problems: MigrationProblem[] = [];
  const known = new Map<string, boolean>();
  for (const table of desired.tables) {
    for (const { column: name, ...target } of table.foreignKeys) {
      const column = table.columns.find((one) => one.name === name);
      const other = types.get(columnKey(target.targetSchema, target.targetTable, target.targetColumn));
      if (!column || other === undefined || column.type === other) continue;
      const pair = `${column.type} → ${other}`;
      const fits = known.get(pair) ?? (await canRefer(session, column.type, other));
      known.set(pair, fits);
      if (fits) continue;
      problems.push(
        problem(
          'MIG-101',
          `${column.at}.type`,
          `${column.type} cannot refer to ${target.targetTable}.${target.targetColumn}, which is ${other}`,
          'Leave the type out: the field then takes the type of what it refers to.',
        ),
      );
    }
  }
  return problems;
}

async function canRefer(session: Queryable, from: string, to: string): Promise<boolean> {
  await session.query(raw('begin'));
  try {
    await session.query(
      raw(`create temp table svc_target (key ${to} unique); create temp table svc_source (key ${from})`),
    );
    await session.query(raw('alter table svc_source add foreign key (key) references svc_target (key)'));
    return true;
  } catch (error) {
    // 42804: no operator between them. Whatever else is wrong will be said where it belongs.
    if (!isDatabaseError(error)) throw error;
    return error.code !== '42804';
  } finally {
    await session.query(raw('rollback'));
  }
}
