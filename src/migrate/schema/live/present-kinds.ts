// Kinds of objects that the live schema has. The server plans the query for a kind longer than it runs it, and most
// databases lack most kinds, so one cheap query decides which of the others to send.
import type { Queryable } from '../../../postgres/owner-database.ts';
import { raw, sql, type Sql } from '../../../postgres/sql.ts';
import { STATEMENT_KINDS, type StatementKind } from '../statements.ts';
import { candidateCondition } from './live-statements.ts';

/** `columnSequence`: feeds a column. `userTrigger`: on `auth.users`. */
const KINDS = [
  'table',
  'partition',
  'view',
  'columnSequence',
  'policy',
  'trigger',
  'userTrigger',
  'function',
  'type',
  'sequence',
] as const;

export type PresentKind = (typeof KINDS)[number] | StatementKind;

const RELATIONS = '(select oids from relation)::oid[]';
const SCHEMAS = '(select oids from space)::oid[]';

/** True if the database may have objects of the kind, never false if it has one. */
const CONDITIONS: Readonly<Record<(typeof KINDS)[number], string>> = {
  table: `(select kinds && '{r,p}' from relation)`,
  partition: `(select 'p' = any (kinds) from relation)`,
  view: `(select kinds && '{v,m}' from relation)`,
  columnSequence: `exists (select from pg_depend d
    where d.refclassid = 'pg_class'::regclass and d.refobjid = any (${RELATIONS})
    and d.refobjsubid > 0 and d.classid = 'pg_class'::regclass and d.deptype in ('a', 'i'))`,
  policy: `exists (select from pg_policy)`,
  trigger: `exists (select from pg_trigger t where t.tgrelid = any (${RELATIONS}) and not t.tgisinternal)`,
  userTrigger: `exists (select from pg_trigger t join pg_class c on c.oid = t.tgrelid
    where c.relname = 'users' and not t.tgisinternal)`,
  function: `exists (select from pg_proc p where p.pronamespace = any (${SCHEMAS}) and p.prokind in ('f', 'p'))`,
  type: `exists (select from pg_type t where t.typnamespace = any (${SCHEMAS})
    and (t.typtype in ('e', 'd') or (t.typtype = 'c'
      and exists (select from pg_class c where c.oid = t.typrelid and c.relkind = 'c'))))`,
  sequence: `exists (select from pg_class c where c.relnamespace = any (${SCHEMAS}) and c.relkind = 'S')`,
};

/** `which`: a condition on `c` (pg_class) and `n` (its pg_namespace). */
export async function readPresentKinds(
  session: Queryable,
  schemas: readonly string[],
  which: Sql,
): Promise<ReadonlySet<PresentKind>> {
  const conditions: ReadonlyArray<readonly [PresentKind, string]> = [
    ...KINDS.map((kind) => [kind, CONDITIONS[kind]] as const),
    ...STATEMENT_KINDS.map((kind) => [kind, candidateCondition(kind, SCHEMAS)] as const),
  ];
  const found = conditions.map(([kind, condition]) => `case when ${condition} then '${kind}' end`);
  const query = sql`
    with space as materialized (
      select array_agg(oid) as oids from pg_namespace where nspname = any (${[...schemas]})
    ), relation as materialized (
      select array_agg(c.oid) as oids, array_agg(distinct c.relkind) as kinds
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where ${which} and c.relkind in ('r', 'p', 'v', 'm')
    )
    select array_remove(array[${raw(found.join(',\n'))}], null) as kinds`;
  const [row] = await session.query<{ kinds: PresentKind[] }>(query, 'present kinds');
  return new Set(row?.kinds);
}
