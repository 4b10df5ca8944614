// Types of columns with a foreign key. If the file declares neither the type nor the referenced table, the type is read
// from the database. Otherwise two empty tables, in a transaction that is rolled back, show whether the types are
// comparable.
import { inDiscardedTransaction, type Queryable } from '../../postgres/owner-database.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { raw, sql } from '../../postgres/sql.ts';
import { outsideReferences, type TypeResolver } from '../schema/column-types.ts';
import { columnKey, type Desired } from '../schema/desired.ts';
import type { SchemaModel } from '../schema/model.ts';
import { problem, type MigrationProblem } from '../problem.ts';

export async function readOutsideTypes(session: Queryable, model: SchemaModel): Promise<Map<string, string>> {
  const references = outsideReferences(model);
  const types = new Map<string, string>();
  if (references.length === 0) return types;
  const rows = await session.query<{ schema: string; table: string; column: string; type: string }>(sql`
    select n.nspname as schema, c.relname as table, a.attname as column, format_type(a.atttypid, a.atttypmod) as type
    from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
    where a.attnum > 0 and not a.attisdropped and (n.nspname, c.relname) in
      (select w.schema, w.table from jsonb_to_recordset(${JSON.stringify(references)}::jsonb) as w (schema text,
        "table" text))`);
  for (const row of rows) types.set(columnKey(row.schema, row.table, row.column), row.type);
  return types;
}

export function missingTypes(desired: Desired): MigrationProblem[] {
  return desired.tables.flatMap((table) =>
    table.columns
      .filter((column) => column.typeSql === '')
      .map((column) => {
        const target = column.model.foreignKey;
        const name = target ? `${target.schema}.${target.table}.${target.column}` : '';
        return problem(
          'MIG-101',
          column.at,
          `the referenced column ${name} does not exist`,
          'Give the field a type, or correct the reference.',
        );
      }),
  );
}

export async function incompatibleReferences(
  session: Queryable,
  desired: Desired,
  resolve: TypeResolver,
  searchPath: string,
): Promise<MigrationProblem[]> {
  const types = new Map<string, string>();
  for (const table of desired.tables) {
    for (const column of table.columns)
      types.set(columnKey(table.schema, table.name, column.name), column.type || column.typeSql);
  }
  const problems: MigrationProblem[] = [];
  const known = new Map<string, boolean>();
  for (const table of desired.tables) {
    const pairs = table.foreignKeys.flatMap((target) =>
      target.columns.map((name, n) => ({ ...target, name, targetColumn: target.targetColumns[n] ?? '' })),
    );
    for (const { name, ...target } of pairs) {
      const column = table.columns.find((candidate) => candidate.name === name);
      if (!column) continue;
      const type = column.type || column.typeSql;
      // For a target outside of the scope, use the type that the column would get if it declared none.
      const other =
        types.get(columnKey(target.targetSchema, target.targetTable, target.targetColumn)) ??
        resolve({ ...column.model, type: null });
      if (other === '' || type === other) continue;
      const pair = `${type} → ${other}`;
      const fits = known.get(pair) ?? (await canRefer(session, type, other, searchPath));
      known.set(pair, fits);
      if (fits) continue;
      problems.push(
        problem(
          'MIG-101',
          `${column.at}.type`,
          `${type} cannot refer to ${target.targetTable}.${target.targetColumn}, which is ${other}`,
          'Remove the type: the field then gets the type of the referenced column.',
        ),
      );
    }
  }
  return problems;
}

async function canRefer(session: Queryable, from: string, to: string, searchPath: string): Promise<boolean> {
  try {
    await inDiscardedTransaction(session, { search_path: raw(searchPath) }, async () => {
      await session.query(
        raw(`create temp table svc_target (key ${to} unique); create temp table svc_source (key ${from})`),
      );
      await session.query(raw('alter table svc_source add foreign key (key) references svc_target (key)'));
    });
    return true;
  } catch (error) {
    if (!isDatabaseError(error)) throw error;
    // PostgreSQL reports a missing operator as a datatype mismatch. Other errors are reported by other checks.
    return !isDatabaseError(error, 'datatype_mismatch');
  }
}
