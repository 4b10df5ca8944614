// What the statements of the file have made in the shadow schema, by the records that were kept of each (`svc_made`).
import type { Queryable } from '../../postgres/owner-database.ts';
import { raw } from '../../postgres/sql.ts';
import { MigrationRefused, type MigrationProblem, problem } from '../problem.ts';
import type { Live } from '../schema/live/live-schema.ts';
import type { DesiredStatement, StatementForm } from '../schema/statements.ts';

// A print may change once more when it is read again. What is made anew keeps its identity, by which it is found below.
export const PRINT_STATEMENTS_AGAIN = `do $$ declare one record; begin
    perform set_config('search_path', 'pg_catalog', true);
    for one in select pg_get_ruledef(r.oid) as print from svc_made m join pg_rewrite r on m.address = 'pg_rewrite/' || r.oid loop
      execute regexp_replace(one.print, '^CREATE RULE', 'CREATE OR REPLACE RULE');
    end loop;
    for one in select s.stxname, n.nspname, pg_get_statisticsobjdef(s.oid) as print, s.oid,
        (select t.target from (select to_jsonb(s) ->> 'stxstattarget') t(target) where t.target <> '-1') as target
      from svc_made m join pg_statistic_ext s on m.address = 'pg_statistic_ext/' || s.oid join pg_namespace n on n.oid = s.stxnamespace loop
      execute format('drop statistics %I.%I', one.nspname, one.stxname);
      execute one.print;
      if one.target is not null then execute format('alter statistics %I.%I set statistics %s', one.nspname, one.stxname, one.target); end if;
    end loop; end $$`;

/** What each statement has made. That it is one thing, and of the kind that its text says, is not taken for granted. */
export async function readMade(
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
        `this statement made ${made.length === 0 ? `no ${statement.kind} in a schema of the file` : made.map(({ identity }) => identity).join(' and ')}`,
        'Write one statement for each thing, and leave out what an extension makes.',
      );
    if (found.beyond !== null) return problem('MIG-101', statement.at, `svc cannot keep it: ${found.beyond}`);
    return { identity: clean(found.identity), definition: found.definition.map(clean) };
  });
  const problems = forms.flatMap((form) => ('code' in form ? [form] : []));
  if (problems.length > 0) throw new MigrationRefused(problems);
  return new Map(forms.flatMap((form, n) => ('code' in form ? [] : [[n, form] as const])));
}
