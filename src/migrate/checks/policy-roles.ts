// Checks that the roles named by policies, functions and grants exist. svc creates only the three API roles.
import { closest } from '../../lib/text/closest-word.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { raw } from '../../postgres/sql.ts';
import { type MigrationProblem, problem } from '../problem.ts';
import { API_ROLES, PUBLIC } from '../schema/rights/roles.ts';
import { declaredSequences } from '../schema/sequences.ts';
import { declaredStatements } from '../schema/statements.ts';
import { type PolicyModel, type SchemaModel, declaredViews } from '../schema/model.ts';

const BUILT_IN_ROLES: ReadonlySet<string> = new Set([...API_ROLES, PUBLIC]);

export async function missingRoles(session: Queryable, model: SchemaModel): Promise<MigrationProblem[]> {
  const named = [
    ...listPolicies(model).map(({ to = [], at }) => ({ roles: to, at: `${at}.to` })),
    ...model.tables.flatMap(({ grants = {}, at }) =>
      Object.keys(grants).map((role) => ({ roles: [role], at: `${at}.grants.${role}` })),
    ),
    ...model.functions.map(({ execute = [], at }) => ({ roles: execute, at: `${at}.execute` })),
    ...declaredStatements(model).map(({ execute, at }) => ({ roles: execute, at: `${at}.execute` })),
    ...declaredSequences(model).map(({ usage = [], at }) => ({ roles: usage, at: `${at}.usage` })),
    ...declaredViews(model).map(({ grants = {}, at }) => ({
      roles: Object.keys(grants),
      at: `${at}.grants`,
    })),
  ].flatMap(({ roles, at }) =>
    roles.filter((role) => !BUILT_IN_ROLES.has(role)).map((role) => ({ role, at })),
  );
  if (named.length === 0) return [];
  const rows = await session.query<{ name: string }>(
    raw(`select rolname as name from pg_roles where rolname !~ '^pg_'`),
  );
  const roles = new Set(rows.map((row) => row.name));
  return named
    .filter(({ role }) => !roles.has(role))
    .map(({ role, at }) => {
      const near = closest(role, [...roles]);
      const hint = near === undefined ? '' : `Did you mean ${near}? `;
      return problem(
        'MIG-114',
        at,
        `there is no role ${role}`,
        `${hint}svc does not create roles. An administrator can run create role.`,
      );
    });
}

function listPolicies({ tables, buckets, channels = [] }: SchemaModel): PolicyModel[] {
  return [
    ...tables.flatMap(({ rls }) => (typeof rls === 'string' ? [] : rls)),
    ...buckets.flatMap(({ policies }) => policies),
    ...channels,
  ];
}
