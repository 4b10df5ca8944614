// Matches overloads in the shadow schema with their declarations. Only the server can resolve the argument types.
import { groupBy } from '../../../lib/group-by.ts';
import type { Queryable } from '../../../postgres/owner-database.ts';
import { quoteLiteral, raw, sql } from '../../../postgres/sql.ts';
import { MigrationRefused, problem } from '../../problem.ts';
import type { DesiredFunction } from '../../schema/desired.ts';
import { objectKey, quoteName } from '../../schema/model.ts';
import { routineWord } from '../../schema/sql/function-sql.ts';

/** Path of the declaration of each overload, keyed by oid. */
export type OverloadMarks = ReadonlyMap<string, string>;

function findOverloads(functions: readonly DesiredFunction[]): DesiredFunction[] {
  return [...groupBy(functions, objectKey).values()].filter((group) => group.length > 1).flat();
}

function markSql({ model, at, ...fn }: DesiredFunction): string {
  const args = model.args.map(({ mode = 'in', type }) => `${mode} ${type}`).join(', ');
  return `comment on ${routineWord(model)} ${quoteName(fn)}(${args}) is ${quoteLiteral(at)}`;
}

/** Sets a comment on each overload and reads it back with the oid. `requalify`: see `requalify.ts`. */
export async function markOverloads(
  session: Queryable,
  functions: readonly DesiredFunction[],
  requalify: (text: string) => string,
): Promise<OverloadMarks> {
  const overloads = findOverloads(functions);
  if (overloads.length === 0) return new Map();
  const places = overloads.map(({ at }) => at);
  await session.query(raw(overloads.map((fn) => requalify(markSql(fn))).join(';\n')));
  const rows = await session.query<{ oid: string; at: string }>(sql`
    select objoid::text as oid, description as at from pg_description
    where classoid = 'pg_proc'::regclass and objsubid = 0 and description = any (${places})`);
  return new Map(rows.map(({ oid, at }) => [oid, at]));
}

/** Throws if two declarations have the same argument types. The second one has then replaced the first one. */
export function rejectDuplicateOverloads(functions: readonly DesiredFunction[], marks: OverloadMarks): void {
  const created = new Set(marks.values());
  const problems = findOverloads(functions)
    .filter(({ at }) => !created.has(at))
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
