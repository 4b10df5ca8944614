// Reads the objects that declared statements created in the shadow schema. The table `svc_made` records them.
import type { Queryable } from '../../../postgres/owner-database.ts';
import { raw } from '../../../postgres/sql.ts';
import { MigrationRefused, type MigrationProblem, problem } from '../../problem.ts';
import type { Live } from '../../schema/live/live-schema.ts';
import type { DesiredStatement, StatementForm } from '../../schema/statements.ts';

// Recreates rules and statistics from their printed form, because a second print may differ from the first. The
// identity of a recreated object stays the same.
export const REPRINT_STATEMENTS = `do $$ declare one record; begin
    perform set_config('search_path', 'pg_catalog', true);
    for one in select pg_get_ruledef(r.oid) as print from svc_made m
      join pg_rewrite r on m.address = 'pg_rewrite/' || r.oid loop
      execute regexp_replace(one.print, '^CREATE RULE', 'CREATE OR REPLACE RULE');
    end loop;
    for one in select s.stxname, n.nspname, pg_get_statisticsobjdef(s.oid) as print, s.oid,
        (select t.target from (select to_jsonb(s) ->> 'stxstattarget') t(target) where t.target <> '-1') as target
      from svc_made m join pg_statistic_ext s on m.address = 'pg_statistic_ext/' || s.oid
        join pg_namespace n on n.oid = s.stxnamespace loop
      execute format('drop statistics %I.%I', one.nspname, one.stxname);
      execute one.print;
      if one.target is not null then execute format('alter statistics %I.%I set statistics %s', one.nspname,
        one.stxname, one.target); end if;
    end loop; end $$`;

/**
 * Returns the form of the object of each statement. Throws unless a statement created exactly one object of its kind.
 */
export async function readCreatedObjects(
  session: Queryable,
  statements: readonly DesiredStatement[],
  live: Live,
  clean: (text: string) => string,
): Promise<ReadonlyMap<number, StatementForm>> {
  const rows = await session.query<{ n: number; identity: string }>(raw('select n, identity from svc_made'));
  const forms = statements.map((statement, n): StatementForm | MigrationProblem => {
    const made = rows
      .filter((row) => row.n === n)
      .flatMap(({ identity }) => live.statements.get(identity) ?? []);
    const [found] = made;
    if (found === undefined || made.length > 1)
      return problem(
        'MIG-101',
        statement.at,
        made.length === 0
          ? `the statement created no ${statement.kind} in a schema of the file`
          : `the statement created ${made.map(({ identity }) => identity).join(' and ')}`,
        'Write one entry for each object, and remove objects that an extension creates.',
      );
    if (found.unsupported !== null)
      return problem('MIG-101', statement.at, `svc cannot manage this object: ${found.unsupported}`);
    return { identity: clean(found.identity), definition: found.definition.map(clean) };
  });
  const problems = forms.flatMap((form) => ('code' in form ? [form] : []));
  if (problems.length > 0) throw new MigrationRefused(problems);
  return new Map(forms.flatMap((form, n) => ('code' in form ? [] : [[n, form] as const])));
}
