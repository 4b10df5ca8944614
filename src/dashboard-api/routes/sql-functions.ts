// GET /sql-functions: the functions of the data API, with the argument types that a form needs.
import { parse } from 'yaml';
import { z } from 'zod';
import { qualifiedKey, type RoutineResult } from '../../catalog/catalog.ts';
import { withArguments } from '../../config/schema/overloads.ts';
import type { Snapshot } from '../../http/feature.ts';
import { groupBy } from '../../lib/group-by.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { exposed } from '../../rest/plan/exposed.ts';
import type { ExposedRoutine } from '../../rest/plan/relation.ts';
import type { SqlFunctionList } from '../contract.ts';
import type { DashboardContext } from '../dashboard-context.ts';
import { isVisible } from '../visible-relations.ts';
import type { DashboardRoutes } from './route.ts';

/** `pg_type.typcategory` of user-defined types. Forms treat unknown types the same way. */
const UNKNOWN_CATEGORY = 'U';

export const sqlFunctionRoutes: DashboardRoutes = (context) => [
  ['GET', '/sql-functions', 'read', () => listFunctions(context)],
];

async function listFunctions({ snapshot, owner }: DashboardContext): Promise<SqlFunctionList> {
  const current = snapshot();
  const routines = [...exposed(current).routines.values()].flat().filter(isVisible);
  const categories = await readCategories(owner, routines);
  const readBody = bodyReader(current);
  return {
    functions: routines.map((routine) => {
      const body = readBody(routine);
      return {
        schema: routine.schema,
        name: routine.name,
        managed: body !== undefined,
        args: routine.args.map(({ name, type, hasDefault }) => ({
          name,
          type,
          category: categories.get(type) ?? UNKNOWN_CATEGORY,
          hasDefault,
        })),
        returns: renderResult(routine.returns),
        isSetOf: routine.isSetOf,
        volatility: routine.volatility,
        authRequired: routine.authRequired,
        sql: body ?? null,
      };
    }),
  };
}

/**
 * Returns a reader of bodies as written in the file. `${VAR}` is not replaced, because values may be secret. Null if
 * the body is in a separate file, undefined if the file does not declare the function.
 */
function bodyReader({ config, catalog }: Snapshot): (routine: ExposedRoutine) => string | null | undefined {
  const { rpc, source } = config;
  const written = BODIES.safeParse(parse(source.text, { merge: true, logLevel: 'silent' })).data?.rpc;
  const declared = groupBy(rpc, qualifiedKey);
  return (routine) => {
    const overloads = catalog.routines.get(qualifiedKey(routine)) ?? [];
    const found = (declared.get(qualifiedKey(routine)) ?? []).find(
      (fn, _n, all) => all.length === 1 || withArguments(overloads, fn.args)?.args === routine.args,
    );
    return found && (written?.[found.key]?.body ?? null);
  };
}

const BODIES = z.object({ rpc: z.record(z.string(), z.object({ body: z.string().optional() })) });

async function readCategories(
  owner: Queryable,
  routines: readonly ExposedRoutine[],
): Promise<Map<string, string>> {
  const types = [...new Set(routines.flatMap(({ args }) => args.map(({ type }) => type)))];
  if (types.length === 0) return new Map();
  const rows = await owner.query<{ type: string; category: string }>(sql`
    select wanted.type, t.typcategory as category
    from unnest(${types}::text[]) as wanted (type) join pg_type t on t.oid = to_regtype(wanted.type)`);
  return new Map(rows.map(({ type, category }) => [type, category]));
}

function renderResult(returns: RoutineResult): string {
  switch (returns.kind) {
    case 'scalar':
    case 'composite':
      return returns.type;
    case 'columns':
      return `table (${returns.columns.map(({ name, type }) => `${name} ${type}`).join(', ')})`;
    case 'void':
    case 'record':
      return returns.kind;
  }
}
