// What `pg_stat_statements` knows of this database and of our roles. Its figures are open to every role, its texts only to
// the role whose statement it was: each of the callers' roles is therefore asked for its own.
import { isDatabaseError } from '../postgres/pg-error.ts';
import { DATABASE_ROLES, type DatabaseRole } from '../postgres/pool/caller-pool.ts';
import { ident, sql, type Sql } from '../postgres/sql.ts';
import { LOGIN_ROLES } from '../provision/roles.ts';
import type { ExtensionMissing, StatementFigures, StatementList } from './contract.ts';
import type { DashboardContext } from './dashboard-context.ts';
import { withoutStrings } from './without-strings.ts';

type Found = Pick<StatementList, 'since' | 'statements' | 'more'>;

type Place = { readonly schema: string | null; readonly loaded: boolean };

/** Figures as text: so they come on the connections of callers. */
type Row = Record<string, string | null>;

const MOST = 500;
const LONGEST_TEXT = 2_000;

export async function readPgStatStatements(context: DashboardContext): Promise<Found | ExtensionMissing> {
  const [place] = await context.owner.query<Place>(sql`
    select (select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace
        where e.extname = 'pg_stat_statements') as schema,
      current_setting('pg_stat_statements.max', true) is not null as loaded`);
  if (!place?.loaded) return { reason: 'not_loaded', message: null };
  if (place.schema === null) return { reason: 'not_installed', message: null };
  try {
    return await read(context, place.schema);
  } catch (error) {
    if (!isDatabaseError(error)) throw error;
    return { reason: 'unreadable', message: error.message };
  }
}

async function read(context: DashboardContext, schema: string): Promise<Found> {
  const { owner } = context;
  const rows = await owner.query<Row>(figuresOf([...LOGIN_ROLES, ...DATABASE_ROLES], schema));
  const [info] = await owner.query<{ since: Date | null }>(
    sql`select stats_reset as since from ${ident(schema, 'pg_stat_statements_info')}`,
  );
  const found = await withTexts(context, schema, rows);
  // Each role was read at a moment of its own: its sums are in every row of it.
  const roles = [...new Map(found.map((row) => [row['role'], row])).values()];
  const total = roles.reduce((sum, row) => sum + Number(row['role_ms']), 0);
  const shapes = roles.reduce((sum, row) => sum + Number(row['role_shapes']), 0);
  const statements = found.sort((a, b) => Number(b['total_ms']) - Number(a['total_ms'])).slice(0, MOST);
  return {
    since: info?.since?.toISOString() ?? null,
    statements: statements.map((row) => toFigures(row, total)),
    more: shapes - statements.length,
  };
}

/** Rows of roles whose texts the owner may not read are replaced by those that the role reads itself, where it may. */
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
      async (transaction) => await transaction.query(figuresOf([role], schema)),
      { readOnly: true },
    );
  } catch (error) {
    if (!isDatabaseError(error)) throw error;
    log.debug({ err: error, role }, 'a role may not read pg_stat_statements');
    return undefined;
  }
}

/** Statements inside functions are in the time of those that called them. */
function figuresOf(roles: readonly string[], schema: string): Sql {
  return sql`
    select concat(s.userid, '/' || s.queryid) as id, pg_get_userbyid(s.userid)::text as role,
      case when s.queryid is not null then left(s.query, ${LONGEST_TEXT}::int) end as text,
      s.calls::text as calls, s.total_exec_time::text as total_ms, s.rows::text as rows,
      (sum(s.total_exec_time) over (partition by s.userid))::text as role_ms,
      (count(*) over (partition by s.userid))::text as role_shapes
    from ${ident(schema, 'pg_stat_statements')} s
    where s.dbid = (select oid from pg_database where datname = current_database())
      and pg_get_userbyid(s.userid) = any(${roles}::text[]) and s.toplevel
    order by s.total_exec_time desc
    limit ${MOST}::int`;
}

function toFigures(row: Row, total: number): StatementFigures {
  const calls = Number(row['calls']);
  const totalMs = Number(row['total_ms']);
  const text = row['text'] ?? null;
  return {
    id: text === null ? '' : (row['id'] ?? ''),
    role: row['role'] ?? '',
    sql: text === null ? null : withoutStrings(text.length < LONGEST_TEXT ? text : `${text}…`),
    calls,
    meanMs: calls > 0 ? totalMs / calls : 0,
    totalMs,
    share: total > 0 ? totalMs / total : 0,
    rows: Number(row['rows']),
  };
}
