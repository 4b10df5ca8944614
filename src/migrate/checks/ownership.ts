// Finds declared objects that do not belong to svc_owner. Only the owner of an object can change it. A connection with
// sufficient privileges can transfer the ownership of existing objects.
import { inputTypes } from '../../config/schema/overloads.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { empty, sql } from '../../postgres/sql.ts';
import { type MigrationProblem, problem } from '../problem.ts';
import { IS_FREE_SEQUENCE } from '../schema/live/live-queries.ts';
import { ownedStatements } from '../schema/live/live-statements.ts';
import { type SchemaModel, declaredViews } from '../schema/model.ts';
import { declaredSequences } from '../schema/sequences.ts';
import { declaredStatements } from '../schema/statements.ts';

/** An object that only another role can transfer to svc_owner, or install for it. */
export type ForeignObject = {
  /** Path in the file. */
  readonly at: string;
  /** `table`, `aggregate`, `extension`. */
  readonly what: string;
  /** Quoted name as SQL. */
  readonly name: string;
  readonly owner: string;
  /** Statement that transfers the object to svc_owner, or installs the extension. */
  readonly sql: string;
};

/**
 * Returns the declared objects that exist and belong to another role. Schemas come first, and partitions are included
 * with their table. Only the declared overload of a function is returned. If its argument types cannot be matched, all
 * overloads with the same number of arguments are returned.
 */
export async function readForeignObjects(session: Queryable, model: SchemaModel): Promise<ForeignObject[]> {
  const relations = [
    ...model.tables.map((table) => ({ ...table, kind: 'table' })),
    ...declaredViews(model).map((view) => ({ ...view, kind: 'view' })),
    ...declaredSequences(model).map(({ renamedFrom = null, ...one }) => ({
      ...one,
      renamedFrom,
      kind: 'sequence',
    })),
  ];
  // Rules and casts have no owner of their own.
  const statements = declaredStatements(model).filter(({ kind }) => kind !== 'rule' && kind !== 'cast');
  const schemas = new Map(relations.map(({ schema, at }) => [schema, at]));
  const declared = [
    ...[...schemas].map(([name, at]) => ({ kind: 'schema', schema: '', name, at })),
    ...relations.flatMap(({ kind, schema, name, renamedFrom, at }) =>
      [name, ...(renamedFrom === null ? [] : [renamedFrom])].map((relationName) => ({
        kind,
        schema,
        name: relationName,
        at,
      })),
    ),
    ...statements.map(({ kind, schema, name, at }) => ({ kind, schema, name, at })),
    ...model.functions.map(({ schema, name, args, at }) => ({
      kind: 'function',
      schema,
      name,
      at,
      args: inputTypes(args),
    })),
  ];
  // The server takes long to plan these two parts, so they are sent only to files that need them.
  const routines = sql`union all
      select 3, p.at, case p.prokind when 'p' then 'procedure' else 'function' end, format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)), p.proowner, 'pg_proc'::regclass, p.oid
      from (
        select w.at, p.oid, p.prokind, p.pronamespace, p.proname, p.proowner, count(*) over same as overloads,
          own.is, bool_or(own.is) over same as is_known, p.pronargs = jsonb_array_length(w.args) as is_long_enough
        from wanted w join pg_namespace n on n.nspname = w.schema join pg_proc p on p.pronamespace = n.oid and p.proname = w.name
        cross join lateral (select w.args = (select coalesce(jsonb_agg(
            replace(lower(regexp_replace(format_type(a.type, null), '^(public|pg_catalog)\\.', '')), '"', '') order by a.position), '[]')
          from unnest(p.proargtypes::oid[]) with ordinality as a(type, position)) as is) own
        where w.kind = 'function' and p.prokind in ('f', 'p')
        window same as (partition by w.at)
      ) p join pg_namespace n on n.oid = p.pronamespace
      where p.overloads = 1 or p.is or (not p.is_known and p.is_long_enough)`;
  const owned = sql`union all
      select 4, w.at, w.kind, substr(s.identity, length(w.kind) + 2), s.owner, s.class::regclass, s.oid
      from wanted w join (${ownedStatements()}) s on s.kind = w.kind and s.schema = w.schema and s.name = w.name`;
  return session.query<ForeignObject>(sql`
    with recursive wanted as materialized (
      select * from jsonb_to_recordset(${JSON.stringify(declared)}::jsonb) as x(kind text, schema text, name text,
        at text, args jsonb)
    ), relation as (
      select w.at, c.oid from wanted w join pg_namespace n on n.nspname = w.schema
      join pg_class c on c.relnamespace = n.oid and c.relname = w.name
      where (w.kind = 'table' and c.relkind in ('r', 'p')) or (w.kind = 'view' and c.relkind in ('v', 'm'))
        or (w.kind = 'sequence' and ${IS_FREE_SEQUENCE})
      union select r.at, i.inhrelid from relation r join pg_inherits i on i.inhparent = r.oid
    ), object as (
      select 1 as rank, w.at, 'schema' as what, format('%I', n.nspname) as name, n.nspowner as owner,
        'pg_namespace'::regclass as class, n.oid
      from wanted w join pg_namespace n on n.nspname = w.name where w.kind = 'schema'
      union all
      select 2, r.at,
        case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' else 'table' end,
        format('%I.%I', n.nspname, c.relname), c.relowner, 'pg_class'::regclass, c.oid
      from relation r join pg_class c on c.oid = r.oid join pg_namespace n on n.oid = c.relnamespace
      ${model.functions.length > 0 ? routines : empty}
      ${statements.length > 0 ? owned : empty}
    )
    select at, what, name, pg_get_userbyid(owner) as owner, format('alter %s %s owner to svc_owner', what, name) as sql
    from object o
    where owner <> 'svc_owner'::regrole
      and not exists (select from pg_depend d where d.classid = o.class and d.objid = o.oid and d.deptype = 'e')
    order by rank, name`);
}

export function ownershipProblems(objects: readonly ForeignObject[]): MigrationProblem[] {
  return objects.map(({ at, what: kind, name, owner, sql: statement }) => {
    if (kind === 'extension') return extensionProblem({ at, name, sql: statement });
    return problem(
      'ADO-301',
      at,
      `${kind} ${name} belongs to ${owner}, and svc can change only objects of svc_owner`,
      `Run as a superuser or a member of ${owner}: ${statement}; svc migrate apply ` +
        'runs it if the role of SVC_DATABASE_URL is allowed to.',
    );
  });
}

function extensionProblem({
  at,
  name,
  sql: statement,
}: Pick<ForeignObject, 'at' | 'name' | 'sql'>): MigrationProblem {
  return problem(
    'MIG-118',
    at,
    `svc_owner cannot install ${name}: it is not a trusted extension`,
    'svc migrate apply installs it if the role of SVC_DATABASE_URL is allowed to. ' +
      `Otherwise, as an administrator of this database, run once: ${statement};`,
  );
}

/** Describes the transfer of an object, which a run makes before its statements. */
export function describeTransfer({ what, name, owner }: Omit<ForeignObject, 'at' | 'sql'>): string {
  if (what === 'extension') return `extension ${name}: installed by the role of SVC_DATABASE_URL`;
  return `${what} ${name}: taken from ${owner}`;
}

/** Connection whose role may have privileges that svc_owner does not have. */
export type OwnershipTransfer = {
  /** Returns the objects that the connection cannot transfer to svc_owner. */
  findUntransferable(objects: readonly ForeignObject[]): Promise<ForeignObject[]>;
  /** Runs `work` in a session with the privileges of both roles. */
  session<T>(work: (session: Queryable) => Promise<T>): Promise<T>;
  /** Transfers all objects, or none. */
  transfer(objects: readonly ForeignObject[]): Promise<void>;
};
