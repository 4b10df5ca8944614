// GET /statements: cost of SQL statements, from the PostgreSQL extension if available, otherwise from this process.
import type { ExtensionMissing, StatementList } from '../contract.ts';
import type { DashboardContext } from '../dashboard-context.ts';
import { readPgStatStatements } from '../pg-stat-statements.ts';
import { redactLiterals } from '../redact-literals.ts';
import type { DashboardRoutes } from './route.ts';

export const statementsRoutes: DashboardRoutes = (context) => [
  ['GET', '/statements', 'read', () => list(context)],
];

async function list(context: DashboardContext): Promise<StatementList> {
  const found = await readPgStatStatements(context);
  if ('reason' in found) return fromOwnCounts(context, found);
  return { source: 'pg_stat_statements', missing: null, process: null, ...found };
}

function fromOwnCounts(
  { statementCounts, processes }: DashboardContext,
  missing: ExtensionMissing,
): StatementList {
  const shapes = statementCounts?.shapes ?? [];
  const all = shapes.reduce((sum, { totalMs }) => sum + totalMs, 0);
  return {
    source: 'own',
    missing,
    since: statementCounts?.since.toISOString() ?? null,
    process: processes ? process.pid : null,
    statements: shapes
      .map(({ name, role, text, calls, totalMs, rows }) => ({
        id: name,
        role,
        sql: redactLiterals(text),
        calls,
        meanMs: totalMs / calls,
        totalMs,
        share: all > 0 ? totalMs / all : 0,
        rows,
      }))
      .sort((a, b) => b.totalMs - a.totalMs),
    more: statementCounts?.left ?? 0,
  };
}
