// Asks the server what a statement would do by doing it to an empty twin of the table, in a transaction that
// cannot commit. Even an empty table gets a new file when it would be rewritten, so the answer is this server's own.
import { quoteIdent, raw } from '../../postgres/sql.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { inDiscardedTransaction, type Queryable } from '../../postgres/owner-database.ts';
import type { AddColumnChange, Change, TypeChange } from '../diff/change.ts';
import type { LiveTable } from '../schema/live-schema.ts';
import { problem, type MigrationProblem } from '../problem.ts';

export type Foretold = {
  readonly rewriting: ReadonlySet<string>;
  readonly problems: readonly MigrationProblem[];
};

type Asked = TypeChange | AddColumnChange;

export async function foretell(
  session: Queryable,
  changes: readonly Change[],
  searchPath: string,
): Promise<Foretold> {
  const asked = changes.filter(isAsked);
  const rewriting = new Set<string>();
  const problems: MigrationProblem[] = [];
  if (asked.length === 0) return { rewriting, problems };
  await inDiscardedTransaction(session, { search_path: raw(searchPath), timezone: 'UTC' }, async () => {
    for (const change of asked) {
      if (change.live === null) continue;
      const answer = await ask(session, change, change.live);
      if (answer.rewrites) rewriting.add(change.column.at);
      if (answer.problem) problems.push(answer.problem);
    }
  });
  return { rewriting, problems };
}

function isAsked(change: Change): change is Asked {
  if (change.kind === 'change-type') return true;
  return (
    change.kind === 'add-column' &&
    change.live !== null &&
    (change.column.default !== null || change.column.serial)
  );
}

async function ask(
  session: Queryable,
  change: Asked,
  live: LiveTable,
): Promise<{ rewrites: boolean; problem: MigrationProblem | null }> {
  const { column } = change;
  const name = quoteIdent(column.name);
  const columns = [...live.columns.values()].map((one) => `${quoteIdent(one.name)} ${one.type}`);
  // Under its own name, so that a USING expression may say `todos.title`.
  const twin = `pg_temp.${quoteIdent(live.name)}`;
  const type = column.serial ? (column.model.type ?? column.typeSql) : column.typeSql;
  const statement =
    change.kind === 'change-type'
      ? `alter table ${twin} alter column ${name} type ${column.typeSql}${column.model.using === null ? '' : ` using (\n${column.model.using}\n)`}`
      : `alter table ${twin} add column ${name} ${type}${column.default === null ? '' : ` default ${column.default.sql}`}`;
  await session.query(raw('savepoint svc_twin'));
  try {
    await session.query(raw(`create temp table ${quoteIdent(live.name)} (${columns.join(', ')})`));
    const before = await fileOf(session, twin);
    await session.query(raw(statement));
    return { rewrites: (await fileOf(session, twin)) !== before, problem: null };
  } catch (error) {
    if (!isDatabaseError(error)) throw error;
    // A default that calls a function of this very plan: volatile until proven otherwise.
    if (change.kind === 'add-column') return { rewrites: true, problem: null };
    return { rewrites: true, problem: refuseCast(change, error) };
  } finally {
    await session.query(raw('rollback to savepoint svc_twin'));
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
