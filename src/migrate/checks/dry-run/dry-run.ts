// Determines whether a statement rewrites a table, by running it on an empty copy in a transaction that is rolled back.
// Even an empty table gets a new file when it is rewritten.
import { quoteIdent, raw } from '../../../postgres/sql.ts';
import { isDatabaseError } from '../../../postgres/pg-error.ts';
import { inDiscardedTransaction, type Queryable } from '../../../postgres/owner-database.ts';
import type { AddColumnChange, Change, TypeChange } from '../../diff/change.ts';
import type { LiveTable } from '../../schema/live/live-schema.ts';
import { columnDefinitionSql, columnTypeSql } from '../../schema/sql/column-sql.ts';
import { describeTypeChange } from '../../schema/label.ts';
import { quoteName } from '../../schema/model.ts';
import { createTypeSql } from '../../schema/types.ts';
import { isBuiltIn, isConstant } from '../rows/without-evaluation.ts';
import { createNewObjects } from './new-objects.ts';
import { problem, type MigrationProblem } from '../../problem.ts';
import type { Step } from '../../plan/step.ts';

export type DryRun = {
  /** Paths of the columns whose change would rewrite the table. */
  readonly rewriting: ReadonlySet<string>;
  readonly problems: readonly MigrationProblem[];
};

type TestedChange = TypeChange | AddColumnChange;

type Preparation = {
  readonly renames: readonly Step[];
  /** Statements that install missing extensions. */
  readonly extensions: readonly string[];
  /** Statements that create the new types and functions of the plan. */
  readonly newObjects: readonly string[];
  /** False: defaults are not evaluated, and every default that is not a literal counts as a rewrite. */
  readonly evaluates: boolean;
};

export async function dryRun(
  session: Queryable,
  changes: readonly Change[],
  searchPath: string,
  { renames, extensions, newObjects, evaluates }: Preparation,
): Promise<DryRun> {
  const rewriting = new Set<string>();
  const problems: MigrationProblem[] = [];
  const tested = changes.filter(needsTest).filter((change) => {
    if (evaluates || change.kind === 'change-type') return true;
    if (!hasLiteralDefault(change)) rewriting.add(change.column.at);
    return false;
  });
  if (tested.length === 0) return { rewriting, problems };
  await inDiscardedTransaction(session, { search_path: raw(searchPath), timezone: 'UTC' }, async () => {
    for (const statement of extensions) await session.query(raw(statement));
    for (const step of renames) if (step.identity.startsWith('types.')) await session.query(raw(step.sql));
    await recreateEnums(session, changes);
    await createNewObjects(session, newObjects);
    for (const change of tested) {
      if (change.live === null) continue;
      const result = await runOnCopy(session, change, change.live);
      if (result.rewrites || reindexes(change, change.live)) rewriting.add(change.column.at);
      if (result.problem) problems.push(result.problem);
    }
  });
  return { rewriting, problems };
}

/** Returns whether the default is a literal of a built-in type, which has no check that the server would evaluate. */
function hasLiteralDefault({ column }: AddColumnChange): boolean {
  if (column.default === null || column.generated !== null || column.serial) return false;
  return isBuiltIn(column.typeSql) && isConstant(column.default.sql);
}

/** Returns whether a change of the collation rebuilds indexes, which needs the same lock as a rewrite. */
function reindexes(change: TestedChange, { keys, indexes }: LiveTable): boolean {
  if (change.kind !== 'change-type' || change.column.collation === change.liveColumn.collation) return false;
  return [...keys, ...indexes].some(({ columns }) => columns.includes(change.column.name));
}

/** Recreates enum types with their new values. PostgreSQL cannot use an added value in the same transaction. */
async function recreateEnums(session: Queryable, changes: readonly Change[]): Promise<void> {
  for (const change of changes) {
    if (change.kind !== 'add-values') continue;
    const { type, live } = change;
    await session.query(
      raw(`alter type ${quoteName(live)} rename to svc_twin_of_${live.oid}; ${createTypeSql(type)}`),
    );
  }
}

function needsTest(change: Change): change is TestedChange {
  if (change.kind === 'change-type') return true;
  return (
    change.kind === 'add-column' &&
    change.live !== null &&
    (change.column.default !== null || change.column.serial)
  );
}

async function runOnCopy(
  session: Queryable,
  change: TestedChange,
  live: LiveTable,
): Promise<{ rewrites: boolean; problem: MigrationProblem | null }> {
  const { column } = change;
  const name = quoteIdent(column.name);
  const columns = [...live.columns.values()].map(
    (liveColumn) => `${quoteIdent(liveColumn.name)} ${liveColumn.type}`,
  );
  // The copy has the name of the table, because a USING expression may contain `todos.title`.
  const copy = `pg_temp.${quoteIdent(live.name)}`;
  const using = column.model.using === null ? '' : ` using (\n${column.model.using}\n)`;
  const hasDefault = column.default !== null && column.generated === null;
  const defaultClause = hasDefault ? ` default ${column.default.sql}` : '';
  const statement =
    change.kind === 'change-type'
      ? `alter table ${copy} alter column ${name} type ${columnTypeSql(column)}${using}`
      : `alter table ${copy} add column ${name} ${columnDefinitionSql(column)}${defaultClause}`;
  await session.query(raw('savepoint svc_copy'));
  try {
    await session.query(raw(`create temp table ${quoteIdent(live.name)} (${columns.join(', ')})`));
    const before = await readRelfilenode(session, copy);
    await session.query(raw(statement));
    return { rewrites: (await readRelfilenode(session, copy)) !== before, problem: null };
  } catch (error) {
    if (!isDatabaseError(error)) throw error;
    // The default calls a function that this plan creates. Assume that it is volatile.
    if (change.kind === 'add-column') return { rewrites: true, problem: null };
    return { rewrites: true, problem: castProblem(change, error) };
  } finally {
    await session.query(raw('rollback to savepoint svc_copy'));
  }
}

function castProblem(change: TypeChange, error: Error): MigrationProblem {
  const { column, liveColumn } = change;
  const at = `${column.at}.${column.model.using === null ? 'type' : 'using'}`;
  if (!isDatabaseError(error, 'datatype_mismatch') || column.model.using !== null)
    return problem('MIG-207', at, error.message);
  return problem(
    'MIG-207',
    at,
    `${describeTypeChange(liveColumn.type, column.type)} has no automatic cast`,
    `Add using: "${column.name}::${column.typeSql}"`,
  );
}

async function readRelfilenode(session: Queryable, table: string): Promise<string> {
  const [row] = await session.query<{ file: string }>(
    raw(
      `select relfilenode::text as file from pg_class where oid = '${table.replaceAll("'", "''")}'::regclass`,
    ),
  );
  return row?.file ?? '';
}
