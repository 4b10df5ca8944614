// Asks the server what a statement would do by running it on an empty copy of the table, in a transaction that is
// rolled back. Even an empty table gets a new file when it is rewritten, so no rules of our own are needed.
import { quoteIdent, raw } from '../../postgres/sql.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { inDiscardedTransaction, type Queryable } from '../../postgres/owner-database.ts';
import type { AddColumnChange, Change, TypeChange } from '../diff/change.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import { definitionOf, typeOf } from '../schema/sql/column-sql.ts';
import { nameOf } from '../schema/model.ts';
import { createTypeSql } from '../schema/types.ts';
import { problem, type MigrationProblem } from '../problem.ts';
import type { Step } from '../plan/step.ts';

export type DryRun = {
  /** Columns whose change would rewrite the table. */
  readonly rewriting: ReadonlySet<string>;
  readonly problems: readonly MigrationProblem[];
};

type Tried = TypeChange | AddColumnChange;

/** `extensions`: statements that install those that are missing. */
export async function dryRun(
  session: Queryable,
  changes: readonly Change[],
  searchPath: string,
  renames: readonly Step[],
  extensions: readonly string[],
): Promise<DryRun> {
  const tried = changes.filter(isTried);
  const rewriting = new Set<string>();
  const problems: MigrationProblem[] = [];
  if (tried.length === 0) return { rewriting, problems };
  await inDiscardedTransaction(session, { search_path: raw(searchPath), timezone: 'UTC' }, async () => {
    for (const statement of extensions) await session.query(raw(statement));
    for (const step of renames) if (step.identity.startsWith('types.')) await session.query(raw(step.sql));
    await makeTwins(session, changes);
    for (const change of tried) {
      if (change.live === null) continue;
      const result = await tryOn(session, change, change.live);
      if (result.rewrites || reindexes(change, change.live)) rewriting.add(change.column.at);
      if (result.problem) problems.push(result.problem);
    }
  });
  return { rewriting, problems };
}

/** Another collation is another order: what sorts by the column is built anew, under the lock of a rewrite. */
function reindexes(change: Tried, { keys, indexes }: LiveTable): boolean {
  if (change.kind !== 'change-type' || change.column.collation === change.liveColumn.collation) return false;
  return [...keys, ...indexes].some(({ columns }) => columns.includes(change.column.name));
}

/** Types with their new values: of one that is only added, nothing may be used in the same transaction. */
async function makeTwins(session: Queryable, changes: readonly Change[]): Promise<void> {
  for (const change of changes) {
    if (change.kind !== 'add-values') continue;
    const { type, live } = change;
    await session.query(
      raw(`alter type ${nameOf(live)} rename to svc_twin_of_${live.oid}; ${createTypeSql(type)}`),
    );
  }
}

function isTried(change: Change): change is Tried {
  if (change.kind === 'change-type') return true;
  return (
    change.kind === 'add-column' &&
    change.live !== null &&
    (change.column.default !== null || change.column.serial)
  );
}

async function tryOn(
  session: Queryable,
  change: Tried,
  live: LiveTable,
): Promise<{ rewrites: boolean; problem: MigrationProblem | null }> {
  const { column } = change;
  const name = quoteIdent(column.name);
  const columns = [...live.columns.values()].map((one) => `${quoteIdent(one.name)} ${one.type}`);
  // Under its own name, so that a USING expression may say `todos.title`.
  const copy = `pg_temp.${quoteIdent(live.name)}`;
  const statement =
    change.kind === 'change-type'
      ? `alter table ${copy} alter column ${name} type ${typeOf(column)}${column.model.using === null ? '' : ` using (\n${column.model.using}\n)`}`
      : `alter table ${copy} add column ${name} ${definitionOf(column)}${column.default === null || column.generated !== null ? '' : ` default ${column.default.sql}`}`;
  await session.query(raw('savepoint svc_copy'));
  try {
    await session.query(raw(`create temp table ${quoteIdent(live.name)} (${columns.join(', ')})`));
    const before = await fileOf(session, copy);
    await session.query(raw(statement));
    return { rewrites: (await fileOf(session, copy)) !== before, problem: null };
  } catch (error) {
    if (!isDatabaseError(error)) throw error;
    // A default that calls a function of this very plan: volatile until proven otherwise.
    if (change.kind === 'add-column') return { rewrites: true, problem: null };
    return { rewrites: true, problem: refuseCast(change, error) };
  } finally {
    await session.query(raw('rollback to savepoint svc_copy'));
  }
}

function refuseCast(change: TypeChange, error: Error): MigrationProblem {
  const { column, liveColumn } = change;
  const at = `${column.at}.${column.model.using === null ? 'type' : 'using'}`;
  if (!isDatabaseError(error, 'datatype_mismatch') || column.model.using !== null)
    return problem('MIG-207', at, error.message);
  return problem(
    'MIG-207',
    at,
    `${liveColumn.type} → ${column.type} has no automatic cast`,
    `Add using: "${column.name}::${column.typeSql}"`,
  );
}

async function fileOf(session: Queryable, table: string): Promise<string> {
  const [row] = await session.query<{ file: string }>(
    raw(
      `select relfilenode::text as file from pg_class where oid = '${table.replaceAll("'", "''")}'::regclass`,
    ),
  );
  return row?.file ?? '';
}
