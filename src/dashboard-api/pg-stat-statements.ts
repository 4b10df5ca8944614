// Reads the statements of this database and of svc's roles from `pg_stat_statements`. Every role can read the
// figures, but only the role that ran a statement can read its text. Each caller role therefore reads its own rows.
import { isDatabaseError } from '../postgres/pg-error.ts';
import { DATABASE_ROLES, type DatabaseRole } from '../postgres/pool/caller-pool.ts';
import { ident, sql, type Sql } from '../postgres/sql.ts';
import { LOGIN_ROLES } from '../provision/roles.ts';
import type { ExtensionMissing, StatementFigures, StatementList } from './contract.ts';
import type { DashboardContext } from './dashboard-context.ts';
import { redactLiterals } from './redact-literals.ts';

type Found = Pick<StatementList, 'since' | 'statements' | 'more'>;

type ExtensionState = { readonly schema: string | null; readonly loaded: boolean };

/** Figures as text, the format that connections of callers return. */
type Row = Record<string, string | null>;

const MAX_STATEMENTS = 500;
const MAX_TEXT_LENGTH = 2_000;

export async function readPgStatStatements(context: DashboardContext): Promise<Found | ExtensionMissing> {
  const [extension] = await context.owner.query<ExtensionState>(sql`
    select (select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace
        where e.extname = 'pg_stat_statements') as schema,
      current_setting('pg_stat_statements.max', true) is not null as loaded`);
  if (!extension?.loaded) return { reason: 'not_loaded', message: null };
  if (extension.schema === null) return { reason: 'not_installed', message: null };
  try {
    return await read(context, extension.schema);
  } catch (error) {
    if (!isDatabaseError(error)) throw error;
    return { reason: 'unreadable', message: error.message };
  }
}

async function read(context: DashboardContext, schema: string): Promise<Found> {
  const { owner } = context;
  const rows = await owner.query<Row>(figuresQuery([...LOGIN_ROLES, ...DATABASE_ROLES], schema));
  const [info] = await owner.query<{ since: Date | null }>(
    sql`select stats_reset as since from ${ident(schema, 'pg_stat_statements_info')}`,
  );
  const found = await withTexts(context, schema, rows);
  // Roles are read at different times. Each row contains the sums of its role.
  const roles = [...new Map(found.map((row) => [row['role'], row])).values()];
  const total = roles.reduce((sum, row) => sum + Number(row['role_ms']), 0);
  const shapes = roles.reduce((sum, row) => sum + Number(row['role_shapes']), 0);
  const statements = found
    .sort((a, b) => Number(b['total_ms']) - Number(a['total_ms']))
    .slice(0, MAX_STATEMENTS);
  return {
    since: info?.since?.toISOString() ?? null,
    statements: statements.map((row) => toFigures(row, total)),
    more: shapes - statements.length,
  };
}

/** Replaces rows of roles whose texts the owner must not read by the rows that the role itself can read. */
async function withTexts(context: DashboardContext, schema: string, rows: readonly Row[]): Promise<Row[]> {
  const hidden = DATABASE_ROLES.filter((role) =>
    rows.some((row) => row['role'] === role && row['text'] === null),
  );
  const readable = await Promise.all(hidden.map((role) => readAs(context, role, schema)));
  const replaced = new Set<string | null | undefined>(hidden.filter((_role, at) => readable[at]));
  return [...rows.filter((row) => !replaced.has(row['role'])), ...readable.flatMap((own) => own ?? [])];
}

async function readAs(
  { callers, log }: DashboardContext,
  role: DatabaseRole,
  schema: string,
): Promise<Row[] | undefined> {
  try {
    return await callers.transaction(
      { role, claims: JSON.stringify({ role }) },
      async (transaction) => await transaction.query(figuresQuery([role], schema)),
      { readOnly: true },
    );
  } catch (error) {
    if (!isDatabaseError(error)) throw error;
    log.debug({ err: error, role }, 'a role may not read pg_stat_statements');
    return undefined;
  }
}

/** The time of a statement includes the statements in functions that it calls. */
function figuresQuery(roles: readonly string[], schema: string): Sql {
  return sql`
    select concat(s.userid, '/' || s.queryid) as id, pg_get_userbyid(s.userid)::text as role,
      case when s.queryid is not null then left(s.query, ${MAX_TEXT_LENGTH}::int) end as text,
      s.calls::text as calls, s.total_exec_time::text as total_ms, s.rows::text as rows,
      (sum(s.total_exec_time) over (partition by s.userid))::text as role_ms,
      (count(*) over (partition by s.userid))::text as role_shapes
    from ${ident(schema, 'pg_stat_statements')} s
    where s.dbid = (select oid from pg_database where datname = current_database())
      and pg_get_userbyid(s.userid) = any(${roles}::text[]) and s.toplevel
      -- Exclude the statements of this file.
      and (s.query is null or s.query not like '%pg_stat_statements%')
    order by s.total_exec_time desc
    limit ${MAX_STATEMENTS}::int`;
}

function toFigures(row: Row, total: number): StatementFigures {
  const calls = Number(row['calls']);
  const totalMs = Number(row['total_ms']);
  const text = row['text'] ?? null;
  return {
    id: text === null ? '' : (row['id'] ?? ''),
    role: row['role'] ?? '',
    sql: text === null ? null : redactLiterals(text.length < MAX_TEXT_LENGTH ? text : `${text}…`),
    calls,
    meanMs: calls > 0 ? totalMs / calls : 0,
    totalMs,
    share: total > 0 ? totalMs / total : 0,
    rows: Number(row['rows']),
  };
}
