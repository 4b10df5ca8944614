// Roles that policies, functions and grants name must exist: svc makes none besides the three of its API.
import { closest } from '../../lib/closest-word.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { raw } from '../../postgres/sql.ts';
import { type MigrationProblem, problem } from '../problem.ts';
import { API_ROLES, PUBLIC } from '../schema/rights/roles.ts';
import { sequencesOf } from '../schema/sequences.ts';
import { statementsOf } from '../schema/statements.ts';
import { type PolicyModel, type SchemaModel, viewsOf } from '../schema/model.ts';

const ALWAYS_THERE: ReadonlySet<string> = new Set([...API_ROLES, PUBLIC]);

export async function missingRoles(session: Queryable, model: SchemaModel): Promise<MigrationProblem[]> {
  const named = [
    ...policiesOf(model).map(({ to = [], at }) => ({ roles: to, at: `${at}.to` })),
    ...model.tables.flatMap(({ grants = {}, at }) =>
      Object.keys(grants).map((role) => ({ roles: [role], at: `${at}.grants.${role}` })),
    ),
    ...model.functions.map(({ execute = [], at }) => ({ roles: execute, at: `${at}.execute` })),
    ...statementsOf(model).map(({ execute, at }) => ({ roles: execute, at: `${at}.execute` })),
    ...sequencesOf(model).map(({ usage = [], at }) => ({ roles: usage, at: `${at}.usage` })),
    ...viewsOf(model).map(({ grants = {}, at }) => ({ roles: Object.keys(grants), at: `${at}.grants` })),
  ].flatMap(({ roles, at }) => roles.filter((role) => !ALWAYS_THERE.has(role)).map((role) => ({ role, at })));
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
        `${hint}svc makes no roles: an administrator does, with create role.`,
      );
    });
}

function policiesOf({ tables, buckets, channels = [] }: SchemaModel): PolicyModel[] {
  return [
    ...tables.flatMap(({ rls }) => (typeof rls === 'string' ? [] : rls)),
    ...buckets.flatMap(({ policies }) => policies),
    ...channels,
  ];
}
