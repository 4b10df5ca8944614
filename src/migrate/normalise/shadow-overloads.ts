// Functions of one name in the shadow schema. Only the server can tell which of them has the types that a declaration names.
import { groupBy } from '../../lib/group-by.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { quoteLiteral, raw, sql } from '../../postgres/sql.ts';
import { MigrationRefused, problem } from '../problem.ts';
import type { DesiredFunction } from '../schema/desired.ts';
import { keyOf, nameOf } from '../schema/model.ts';
import { routineWord } from '../schema/sql/function-sql.ts';

/** Which declaration a function is, by its oid. */
export type OverloadMarks = ReadonlyMap<string, string>;

function overloadsOf(functions: readonly DesiredFunction[]): DesiredFunction[] {
  return [...groupBy(functions, keyOf).values()].filter((group) => group.length > 1).flat();
}

function markSql({ model, at, ...fn }: DesiredFunction): string {
  const args = model.args.map(({ mode = 'in', type }) => `${mode} ${type}`).join(', ');
  return `comment on ${routineWord(model)} ${nameOf(fn)}(${args}) is ${quoteLiteral(at)}`;
}

/** `found`: makes a text find what the shadow does not build. */
export async function markOverloads(
  session: Queryable,
  functions: readonly DesiredFunction[],
  found: (text: string) => string,
): Promise<OverloadMarks> {
  const overloads = overloadsOf(functions);
  if (overloads.length === 0) return new Map();
  const places = overloads.map(({ at }) => at);
  await session.query(raw(overloads.map((fn) => found(markSql(fn))).join(';\n')));
  const rows = await session.query<{ oid: string; at: string }>(sql`
    select objoid::text as oid, description as at from pg_description
    where classoid = 'pg_proc'::regclass and objsubid = 0 and description = any (${places})`);
  return new Map(rows.map(({ oid, at }) => [oid, at]));
}

/** The later of two with the same types has taken the place of the other. */
export function refuseTwins(functions: readonly DesiredFunction[], marks: OverloadMarks): void {
  const there = new Set(marks.values());
  const problems = overloadsOf(functions)
    .filter(({ at }) => !there.has(at))
    .map(({ at, name }) =>
      problem(
        'MIG-111',
        at,
        `another function called ${name} has arguments of the same types`,
        'Functions of one name differ in the types of their arguments: remove one of the two, or give it another name.',
      ),
    );
  if (problems.length > 0) throw new MigrationRefused(problems);
}
