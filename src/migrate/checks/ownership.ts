// What the file declares must belong to svc_owner: only the owner of an object may change it. What came with the
// database belongs to whoever made it, until a connection that may gives it over.
import { inputTypes } from '../../config/schema/overloads.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { type MigrationProblem, problem } from '../problem.ts';
import { IS_FREE_SEQUENCE } from '../schema/live/live-queries.ts';
import { ownedStatements } from '../schema/live/live-statements.ts';
import { type SchemaModel, viewsOf } from '../schema/model.ts';
import { sequencesOf } from '../schema/sequences.ts';
import { statementsOf } from '../schema/statements.ts';

export type ForeignObject = {
  /** Path in the file. */
  readonly at: string;
  /** `table`, `aggregate`. */
  readonly what: string;
  /** As SQL names it. */
  readonly name: string;
  readonly owner: string;
  /** Gives it to svc_owner. */
  readonly sql: string;
};

/**
 * Declared, in the database, and of another role; schemas first, partitions with their table. Of overloads only the
 * declared one; where its types are written in another way than the server's, those with as many arguments.
 */
export async function readForeignObjects(session: Queryable, model: SchemaModel): Promise<ForeignObject[]> {
  const relations = [
    ...model.tables.map((table) => ({ ...table, kind: 'table' })),
    ...viewsOf(model).map((view) => ({ ...view, kind: 'view' })),
    ...sequencesOf(model).map(({ renamedFrom = null, ...one }) => ({
      ...one,
      renamedFrom,
      kind: 'sequence',
    })),
  ];
  const schemas = new Map(relations.map(({ schema, at }) => [schema, at]));
  const wanted = [
    ...[...schemas].map(([name, at]) => ({ kind: 'schema', schema: '', name, at })),
    ...relations.flatMap(({ kind, schema, name, renamedFrom, at }) =>
      [name, ...(renamedFrom === null ? [] : [renamedFrom])].map((one) => ({
        kind,
        schema,
        name: one,
        at,
      })),
    ),
    ...statementsOf(model)
      // Rules and casts have no owner of their own.
      .filter(({ kind }) => kind !== 'rule' && kind !== 'cast')
      .map(({ kind, schema, name, at }) => ({ kind, schema, name, at })),
    ...model.functions.map(({ schema, name, args, at }) => ({
      kind: 'function',
      schema,
      name,
      at,
      args: inputTypes(args),
    })),
  ];
  return session.query<ForeignObject>(sql`
    with recursive wanted as materialized (
      select * from jsonb_to_recordset(${JSON.stringify(wanted)}::jsonb) as x(kind text, schema text, name text, at text, args jsonb)
    ), relation as (
      select w.at, c.oid from wanted w join pg_namespace n on n.nspname = w.schema
      join pg_class c on c.relnamespace = n.oid and c.relname = w.name
      where (w.kind = 'table' and c.relkind in ('r', 'p')) or (w.kind = 'view' and c.relkind in ('v', 'm'))
        or (w.kind = 'sequence' and ${IS_FREE_SEQUENCE})
      union select r.at, i.inhrelid from relation r join pg_inherits i on i.inhparent = r.oid
    ), routine as (
      select w.at, p.oid, p.prokind, p.pronamespace, p.proname, p.proowner, count(*) over same as overloads,
        own.is, bool_or(own.is) over same as is_known, p.pronargs = jsonb_array_length(w.args) as is_long_enough
      from wanted w join pg_namespace n on n.nspname = w.schema join pg_proc p on p.pronamespace = n.oid and p.proname = w.name
      cross join lateral (select w.args = (select coalesce(jsonb_agg(
          replace(lower(regexp_replace(format_type(a.type, null), '^(public|pg_catalog)\\.', '')), '"', '') order by a.position), '[]')
        from unnest(p.proargtypes::oid[]) with ordinality as a(type, position)) as is) own
      where w.kind = 'function' and p.prokind in ('f', 'p')
      window same as (partition by w.at)
    ), object as (
      select 1 as rank, w.at, 'schema' as what, format('%I', n.nspname) as name, n.nspowner as owner, 'pg_namespace'::regclass as class, n.oid
      from wanted w join pg_namespace n on n.nspname = w.name where w.kind = 'schema'
      union all
      select 2, r.at, case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' else 'table' end, format('%I.%I', n.nspname, c.relname), c.relowner, 'pg_class'::regclass, c.oid
      from relation r join pg_class c on c.oid = r.oid join pg_namespace n on n.oid = c.relnamespace
      union all
      select 3, p.at, case p.prokind when 'p' then 'procedure' else 'function' end, format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)), p.proowner, 'pg_proc'::regclass, p.oid
      from routine p join pg_namespace n on n.oid = p.pronamespace
      where p.overloads = 1 or p.is or (not p.is_known and p.is_long_enough)
      union all
      select 4, w.at, w.kind, substr(s.identity, length(w.kind) + 2), s.owner, s.class::regclass, s.oid
      from wanted w join (${ownedStatements()}) s on s.kind = w.kind and s.schema = w.schema and s.name = w.name
    )
    select at, what, name, pg_get_userbyid(owner) as owner, format('alter %s %s owner to svc_owner', what, name) as sql
    from object o
    where owner <> 'svc_owner'::regrole
      and not exists (select from pg_depend d where d.classid = o.class and d.objid = o.oid and d.deptype = 'e')
    order by rank, name`);
}

export function ownershipProblems(objects: readonly ForeignObject[]): MigrationProblem[] {
  return objects.map(({ at, what, name, owner, sql: statement }) =>
    problem(
      'ADO-301',
      at,
      `${what} ${name} belongs to ${owner}, and svc changes only what svc_owner owns`,
      `A superuser or a member of ${owner} runs: ${statement}; svc migrate apply does it itself where the role of SVC_DATABASE_URL may.`,
    ),
  );
}

/** A connection that may have rights which svc_owner has not. */
export type OwnershipTaker = {
  /** Which of the objects it may not give to svc_owner. */
  refused(objects: readonly ForeignObject[]): Promise<ForeignObject[]>;
  /** A session with these rights and those of svc_owner. */
  session<T>(work: (session: Queryable) => Promise<T>): Promise<T>;
  /** All of them, or none. */
  take(objects: readonly ForeignObject[]): Promise<void>;
};
