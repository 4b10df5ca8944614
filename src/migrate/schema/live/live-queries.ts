// Catalog queries for the live schema. Values that many objects share, such as access lists and sets of roles, are
// converted to text once per distinct value: per object, this would take most of the time.
import { raw, sql, type Sql } from '../../../postgres/sql.ts';
import { HOSTS } from '../rights/hosts.ts';
import { PUBLICATION, SUPABASE_PUBLICATION } from '../publication.ts';
import { API_ROLES } from '../rights/roles.ts';
import { ATTRIBUTE_NAMES, LIVE_ATTRIBUTES } from '../sql/table-attributes.ts';

const ONLY_TABLES = raw(`c.relkind in ('r', 'p') and not c.relispartition
  and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid
    and d.deptype = 'e')`);

// `filter`: a condition on `c` (pg_class) and `n` (its pg_namespace).
// `everything`: the default privileges of the owner, which the service role must have too.
export function relationsQuery(filter: Sql): Sql {
  return sql`with relation as materialized (
    select c.oid, n.nspname, c.relname, c.relkind, c.relrowsecurity, c.relforcerowsecurity, c.reltuples,
      c.relreplident, c.relowner, c.relacl, ${raw(LIVE_ATTRIBUTES)}, coalesce(c.relacl::text, '') as access
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where ${filter} and ${ONLY_TABLES}
  ), spelled as materialized (
    select a.access, a.relowner,
      (select coalesce(string_agg(g.who || ':' || g.privileges, ' ' order by g.who), '') from (
        select coalesce(r.rolname, 'public') as who, string_agg(x.privilege_type, ','
          order by x.privilege_type) as privileges
        from aclexplode(a.relacl) x left join pg_roles r on r.oid = x.grantee
        where x.grantee = 0 or r.rolname in ('anon', 'authenticated', 'service_role') group by 1) g) as grants,
      (select string_agg(x.privilege_type, ',' order by x.privilege_type)
        from aclexplode(acldefault('r', a.relowner)) x) as everything,
      (select coalesce(jsonb_object_agg(g.who, g.privileges), '{}') from (
        select coalesce(r.rolname, 'public') as who, jsonb_agg(distinct lower(x.privilege_type)) as privileges
        from aclexplode(a.relacl) x left join pg_roles r on r.oid = x.grantee
        where x.grantee <> a.relowner and x.privilege_type <> 'MAINTAIN' group by 1) g) as "grantedTo",
      exists (select from aclexplode(a.relacl) x join pg_roles r on r.oid = x.grantee
        where x.grantee <> a.relowner and r.rolname not in ('anon', 'authenticated',
          'service_role')) as "grantedToOthers"
    from (select distinct on (access, relowner) access, relowner, relacl from relation) a
  ) select r.oid::text as oid, r.nspname as schema, r.relname as name, r.relrowsecurity as "rowSecurity",
    r.relforcerowsecurity as "rowSecurityForced", ${raw(ATTRIBUTE_NAMES)},
    case r.relreplident when 'f' then 'full' when 'i' then 'index' when 'n' then 'nothing' else 'default'
      end as "replicaIdentity", obj_description(r.oid, 'pg_class') as comment,
    size.rows as "estimatedRows", size.bytes, s.grants, s."grantedTo", s.everything, s."grantedToOthers"
  from relation r join spelled s on s.access = r.access and s.relowner = r.relowner
  -- A partitioned table stores no rows: its counts and sizes come from the leaf partitions.
  cross join lateral (select case when r.relkind = 'r' then r.reltuples::float8 else
      (select case when bool_and(p.reltuples < 0) then -1
        else coalesce(sum(p.reltuples) filter (where p.reltuples > 0), 0) end::float8
        from pg_partition_tree(r.oid) t join pg_class p on p.oid = t.relid and t.isleaf) end as rows,
    case when r.relkind = 'r' then pg_relation_size(r.oid)::float8 else
      coalesce((select sum(pg_relation_size(t.relid)) from pg_partition_tree(r.oid) t
        where t.isleaf), 0)::float8 end as bytes) size
  order by r.oid`;
}

/** `tables`: an array of oids, as in the two queries below. */
export function columnsQuery(tables: Sql): Sql {
  return sql`select a.attrelid::text as relation, a.attname as name, a.attnum as number, format_type(a.atttypid, a.atttypmod) as type,
    t.typcategory as category, a.attnotnull as "notNull", pg_get_expr(d.adbin, d.adrelid) as default, 
    case a.attidentity when 'a' then 'always' when 'd' then 'by_default' end as identity,
    case a.attgenerated when 's' then 'stored' when 'v' then 'virtual' end as generated, co.description as comment,
    case when a.attcollation <> t.typcollation then (select case
      when k.collnamespace = 'pg_catalog'::regnamespace then quote_ident(k.collname)
      else quote_ident(kn.nspname) || '.' || quote_ident(k.collname) end
      from pg_collation k join pg_namespace kn on kn.oid = k.collnamespace where k.oid = a.attcollation)
        end as collation,
    case when a.attacl is not null then (select jsonb_object_agg(g.who, g.privileges) from (
      select coalesce(r.rolname, 'public') as who, jsonb_agg(distinct lower(x.privilege_type)) as privileges
      from aclexplode(a.attacl) x left join pg_roles r on r.oid = x.grantee where x.grantee <> c.relowner
        group by 1) g) end as grants,
    a.attacl is not null and exists (select from aclexplode(a.attacl) x join pg_roles r on r.oid = x.grantee
      where x.grantee <> c.relowner and r.rolname not in ('anon', 'authenticated', 'service_role')) as "grantedToOthers"
  from pg_attribute a join pg_class c on c.oid = a.attrelid and a.attnum > 0 and not a.attisdropped
  join pg_type t on t.oid = a.atttypid
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  left join pg_description co on co.classoid = 'pg_class'::regclass and co.objoid = a.attrelid and co.objsubid = a.attnum
  where a.attrelid = any (${tables}) order by a.attrelid, a.attnum`;
}

/** Selects partitioned tables with their keys, and their partitions. Parents come before their partitions. */
export function partitionsQuery(filter: Sql): Sql {
  return sql`with recursive tree as (
    select c.oid as root, c.oid, null::oid as parent, 0 as depth from pg_class c
      join pg_namespace n on n.oid = c.relnamespace
      where c.relkind = 'p' and not c.relispartition and ${filter}
    union all select t.root, i.inhrelid, t.oid, t.depth + 1 from tree t join pg_inherits i on i.inhparent = t.oid
      join pg_class p on p.oid = i.inhrelid and p.relkind <> 'f'
  ) select t.root::text as relation, c.oid::text as oid, n.nspname as schema, c.relname as name,
    case when t.depth > 1 then (select p.relname from pg_class p where p.oid = t.parent) end as parent,
    coalesce(pg_get_expr(c.relpartbound, c.oid), '') as bound, pg_get_partkeydef(c.oid) as key,
    case k.partstrat when 'r' then 'range' when 'l' then 'list' when 'h' then 'hash' end as strategy,
    -- pg_get_expr prints several expressions as one list that cannot be split, so only one expression is supported.
    case when k.partrelid is null or exists (select from unnest(k.partclass) o(oid)
      join pg_opclass c on c.oid = o.oid and not c.opcdefault)
      or exists (select from unnest(k.partattrs::int2[], k.partcollation) x(number, coll) join pg_attribute a
        on a.attrelid = c.oid and a.attnum = x.number where a.attcollation <> x.coll)
      or cardinality(array_positions(k.partattrs::int2[], 0::int2)) > 1 then null
    else array(select coalesce(a.attname::text, pg_get_expr(k.partexprs, c.oid))
      from unnest(k.partattrs::int2[]) with ordinality x(number, n)
      left join pg_attribute a on a.attrelid = c.oid and a.attnum = x.number and x.number <> 0 order by x.n) end as keys
  from tree t join pg_class c on c.oid = t.oid join pg_namespace n on n.oid = c.relnamespace
  left join pg_partitioned_table k on k.partrelid = c.oid order by t.root, t.depth, n.nspname, c.relname`;
}

/** Selects the sequences that columns own. */
export function sequencesQuery(filter: Sql): Sql {
  return sql`with sequence as materialized (
    select d.refobjid, d.refobjsubid, quote_ident(sn.nspname) || '.' || quote_ident(s.relname) as name,
      d.deptype = 'a' as auto,
      s.relacl, coalesce(s.relacl::text, '') as access
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = c.oid and d.refobjsubid > 0
      and d.classid = 'pg_class'::regclass and d.deptype in ('a', 'i')
    join pg_class s on s.oid = d.objid and s.relkind = 'S' join pg_namespace sn on sn.oid = s.relnamespace
    where ${filter}
  ), spelled as materialized (
    select a.access, array(select r.rolname::text from aclexplode(a.relacl) x join pg_roles r on r.oid = x.grantee
      where r.rolname = any (${[...API_ROLES]}) and x.privilege_type in ('USAGE', 'SELECT')
      group by 1 having count(distinct x.privilege_type) = 2) as users
    from (select distinct on (access) access, relacl from sequence) a
  ) select q.refobjid::text as relation, q.refobjsubid as number, q.name, bool_or(q.auto) as auto, s.users
  from sequence q join spelled s on s.access = q.access group by 1, 2, 3, 5 order by 1, 2, 3`;
}

export function constraintsQuery(tables: Sql): Sql {
  return sql`select k.conrelid::text as relation, k.conname as label, k.contype as type, k.conkey::int[] as columns, k.convalidated as validated,
    k.condeferrable as deferrable, k.condeferred as deferred, (to_jsonb(k) -> 'confdelsetcols') as "onDeleteColumns", k.confdeltype as "onDelete", k.confupdtype as "onUpdate", k.confmatchtype as match,
    coalesce((select i.indnullsnotdistinct from pg_index i where i.indexrelid = k.conindid and k.contype = 'u'), false) as "nullsNotDistinct",
    case when k.contype = 'c' then pg_get_expr(k.conbin, k.conrelid) end as expression,
    case when k.contype = 'x' then (select jsonb_build_object('definition', pg_get_constraintdef(k.oid),
      'where', pg_get_expr(i.indpred, i.indrelid),
        'keys', array(select pg_get_indexdef(i.indexrelid, n, false) from generate_series(1, i.indnkeyatts) n),
        'operators', array(select o.oprname::text from unnest(k.conexclop) with ordinality e(oid, n)
          join pg_operator o on o.oid = e.oid order by e.n))
      from pg_index i where i.indexrelid = k.conindid) end as exclusion,
    tn.nspname as "targetSchema", tc.relname as "targetTable", k.confrelid::text as target,
      k.confkey::int[] as "targetColumns",
    coalesce((to_jsonb(k) ->> 'conenforced')::boolean, true) and not exists (select from pg_trigger t
      where k.contype = 'f' and t.tgconstraint = k.oid and t.tgenabled in ('D', 'R')) as enforced
  from pg_constraint k
  left join pg_class tc on tc.oid = k.confrelid left join pg_namespace tn on tn.oid = tc.relnamespace
  where k.conrelid = any (${tables}) and k.contype in ('p', 'u', 'f', 'c', 'x') and k.conparentid = 0 order by k.conrelid, k.conname`;
}

/** Selects the column names of referenced tables that were not read. */
export function columnNamesQuery(relations: readonly string[]): Sql {
  return sql`select attrelid::text as relation, attnum as number, attname as name from pg_attribute
    where attrelid = any (${[...relations]}::oid[]) and attnum > 0 and not attisdropped`;
}

/** Condition on `i` (pg_index) and `ic` (its pg_class): the index has more than plain btree columns and a predicate. */
export const NOT_PLAIN_INDEX = raw(`(i.indexprs is not null or i.indnatts <> i.indnkeyatts
  or ic.relam <> (select oid from pg_am where amname = 'btree') or 0 <> any (i.indoption::int2[])
  or i.indisexclusion or i.indnullsnotdistinct or ic.reloptions is not null
  or i.indclass::oid[] && array(select o.oid from pg_opclass o where not o.opcdefault)
  or exists (select from unnest(i.indkey::int2[], i.indcollation::oid[]) as k(number, coll)
    join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number where a.attcollation <> k.coll
      and k.coll <> 0))`);

export function indexesQuery(tables: Sql): Sql {
  return sql`select i.indrelid::text as relation, ic.relname as label, i.indkey::int2[]::int[] as columns, i.indisunique as unique,
    pg_get_expr(i.indpred, i.indrelid) as predicate, i.indisvalid and i.indisready and i.indislive as valid, not special.is as plain,
    right(pg_get_indexdef(i.indexrelid), -length(format('CREATE %sINDEX %I ON %s%I.%I ', case when i.indisunique then 'UNIQUE ' end,
      ic.relname, case when ic.relkind = 'I' then 'ONLY ' end, n.nspname, c.relname))) as definition,
    case when special.is then array(select pg_get_indexdef(i.indexrelid, k, false)
      from generate_series(1, i.indnkeyatts) k) end as keys
  from pg_index i join pg_class ic on ic.oid = i.indexrelid
  cross join lateral (select ${NOT_PLAIN_INDEX} as is) special
  join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace
  where i.indrelid = any (${tables})
    and not exists (select from pg_constraint k where k.conrelid = i.indrelid and k.conindid = i.indexrelid and k.contype in ('p', 'u', 'x')) order by ic.relname`;
}

// The catalog is queried because to_regclass() fails for a role without USAGE on the schema.
const HOST_OIDS = raw(`(select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where (n.nspname, c.relname) in (${HOSTS.map((host) => `('${host.replace('.', "', '")}')`).join(', ')}))`);
const USERS_OID = raw(`(select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = 'auth' and c.relname = 'users')`);

export function policiesQuery(filter: Sql): Sql {
  return sql`with policy as materialized (
    select p.*, case when c.oid in ${HOST_OIDS} then n.nspname || '.' || c.relname end as host
    from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_policy p on p.polrelid = c.oid
    where (${filter}) or c.oid in ${HOST_OIDS}
  ), spelled as materialized (
    select l.polroles, case when l.polroles = '{0}' then 'public'
      else (select string_agg(r.rolname, ',' order by r.rolname) from pg_roles r where r.oid = any (l.polroles))
        end as roles
    from (select distinct polroles from policy) l
  ) select p.polrelid::text as relation, p.polname as label, 
    case p.polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete'
      else 'all' end as command,
    p.polpermissive as permissive, s.roles,
    pg_get_expr(p.polqual, p.polrelid) as using, pg_get_expr(p.polwithcheck, p.polrelid) as check, p.host
  from policy p join spelled s on s.polroles = p.polroles order by p.polname`;
}

const TRIGGERS =
  raw(`select t.tgrelid::text as relation, t.tgname as label, pg_get_triggerdef(t.oid) as definition,
    t.tgenabled in ('O', 'A') as enabled, t.tgenabled as state, p.prosrc as body, obj_description(p.oid,
      'pg_proc') as comment
  from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_proc p on p.oid = t.tgfoid`);

export function triggersQuery(filter: Sql): Sql {
  return sql`${TRIGGERS} join pg_namespace n on n.oid = c.relnamespace
  where ${filter} and not t.tgisinternal and t.tgparentid = 0 and t.tgname not like '~svc\\_%' order by t.tgname`;
}

export const USER_TRIGGERS = sql`${TRIGGERS}
  where t.tgrelid = ${USERS_OID} and not t.tgisinternal order by t.tgname`;

/** Selects the publications for realtime, as rows without a relation, and their members. */
export const PUBLICATIONS = sql`with publication as materialized (
    select p.oid, p.pubname, p.puballtables, array_remove(array[case when p.pubinsert then 'insert' end,
      case when p.pubupdate then 'update' end, case when p.pubdelete
        then 'delete' end], null) as events, coalesce(to_jsonb(p) ->> 'pubgencols', 's') = 's' as generated
    from pg_publication p where p.pubname in (${PUBLICATION}, ${SUPABASE_PUBLICATION})
  ) select p.pubname as publication, null as relation, false as whole, p.generated, p.events from publication p
  union all select p.pubname, m.prrelid::text, m.prattrs is null and m.prqual is null, p.generated, p.events
    from publication p join pg_publication_rel m on m.prpubid = p.oid
  union all select p.pubname, c.oid::text, true, p.generated, p.events
    from publication p join pg_class c on c.relkind in ('r', 'p') and (p.puballtables
      or exists (select from pg_publication_namespace s where s.pnpubid = p.oid and s.pnnspid = c.relnamespace))
    where p.pubname = ${SUPABASE_PUBLICATION}`;

export const EXTENSIONS = raw(`select e.extname as name, n.nspname as schema, e.extversion as version
  from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname <> 'plpgsql' order by 1`);

/** Condition on `c` (pg_class): a sequence that belongs to no column and no extension. */
export const IS_FREE_SEQUENCE = raw(`c.relkind = 'S' and not exists (select from pg_depend d
  where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype in ('a', 'i', 'e'))`);

export function freeSequencesQuery(schemas: readonly string[]): Sql {
  return sql`select n.nspname as schema, c.relname as name,
    json_build_object('type', format_type(q.seqtypid, null), 'increment', q.seqincrement::text, 'min',
      q.seqmin::text, 'max', q.seqmax::text,
      'start', q.seqstart::text, 'cache', q.seqcache::text, 'cycle', q.seqcycle) as numbers,
    (select coalesce(array_agg(distinct coalesce(r.rolname::text, 'public')), '{}') from aclexplode(c.relacl) x
      left join pg_roles r on r.oid = x.grantee
      where x.grantee <> c.relowner and x.privilege_type = 'USAGE') as usage,
    obj_description(c.oid, 'pg_class') as comment
  from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_sequence q on q.seqrelid = c.oid
  where n.nspname = any (${[...schemas]}) and ${IS_FREE_SEQUENCE} order by n.nspname, c.relname`;
}

export function functionsQuery(schemas: readonly string[]): Sql {
  return sql`select p.oid::text as oid, n.nspname as schema, p.proname as name,
    pg_get_function_arguments(p.oid) as arguments,
  pg_get_function_identity_arguments(p.oid) as "identityArguments",
  (select coalesce(array_agg(format_type(u.type, null) order by u.position), '{}')
    from unnest(p.proargtypes::oid[]) with ordinality as u(type, position)) as "argumentTypes",
  coalesce(p.proargnames, '{}') as "argumentNames", p.pronargdefaults as defaults,
    coalesce(pg_get_function_result(p.oid), '') as result, p.prokind = 'p' as "isProcedure",
  (select coalesce(json_agg(json_build_object('name', coalesce(p.proargnames[a.n], ''), 'mode',
    coalesce(p.proargmodes[a.n], 'i'),
      'type', format_type(a.type, null), 'default', pg_get_function_arg_default(p.oid, a.n::int)) order by a.n), '[]')
    from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality as a(type, n)) as parameters,
  (select array_agg(p.proargmodes[a.n]::text || ' ' || format_type(a.type, null) order by a.n)
    from unnest(p.proallargtypes) with ordinality as a(type, n) where p.proargmodes[a.n] in ('o', 'b', 't')) as outputs,
  p.proisstrict as strict, p.proparallel as parallel, p.procost as cost, p.prorows as rows,
    p.prosqlbody is not null as atomic,
  l.lanname as language, p.provolatile as volatility, p.prosecdef as definer, coalesce(p.proconfig,
    '{}') as settings, coalesce(pg_get_function_sqlbody(p.oid), p.prosrc) as body,
  (select coalesce(array_agg(distinct coalesce(r.rolname::text, 'public')), '{}')
   from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x left join pg_roles r on r.oid = x.grantee
   where x.grantee <> p.proowner) as callers
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace join pg_language l on l.oid = p.prolang
  where n.nspname = any (${[...schemas]}) and p.prokind in ('f', 'p')
    and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid
      and d.deptype in ('e', 'i')) order by p.proname, p.oid`;
}

/** Condition on `t` (pg_type): not an array type, and not a type of a table or an extension. */
export const OWN_TYPES = raw(`t.typtype in ('e', 'd', 'c')
  and (t.typtype <> 'c' or exists (select from pg_class c where c.oid = t.typrelid and c.relkind = 'c'))
  and not exists (select from pg_depend d where d.deptype = 'e'
    and (d.classid, d.objid) in (('pg_type'::regclass, t.oid), ('pg_class'::regclass, t.typrelid)))`);

export const IS_USED_TYPE = raw(
  `exists (select from pg_depend d where d.refclassid = 'pg_type'::regclass
    and d.refobjid in (t.oid, t.typarray) and d.deptype = 'n')`,
);

export function typesQuery(schemas: readonly string[]): Sql {
  return sql`select t.oid::text as oid, n.nspname as schema, t.typname as name,
    case t.typtype when 'e' then 'enum' when 'd' then 'domain' else 'composite' end as kind,
    array(select e.enumlabel::text from pg_enum e where e.enumtypid = t.oid order by e.enumsortorder) as values,
    case when t.typtype = 'd' then json_build_object('base', format_type(t.typbasetype, t.typtypmod), 'notNull',
      t.typnotnull,
      'default', pg_get_expr(t.typdefaultbin, 0),
      'collation', (select case when k.collnamespace = 'pg_catalog'::regnamespace then quote_ident(k.collname)
        else quote_ident(kn.nspname) || '.' || quote_ident(k.collname) end
        from pg_collation k join pg_namespace kn on kn.oid = k.collnamespace join pg_type b on b.oid = t.typbasetype
        where k.oid = t.typcollation and b.typcollation <> k.oid),
      'checks', (select coalesce(json_agg(json_build_object('label', k.conname, 'expression',
        pg_get_expr(k.conbin, 0), 'validated', k.convalidated)
        order by k.conname), '[]') from pg_constraint k where k.contypid = t.oid and k.contype = 'c')) end as domain,
    (select coalesce(json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod))
      order by a.attnum), '[]')
      from pg_attribute a where a.attrelid = t.typrelid and t.typrelid <> 0 and a.attnum > 0
        and not a.attisdropped) as attributes,
    obj_description(t.oid, 'pg_type') as comment,
    ${IS_USED_TYPE} as used
  from pg_type t join pg_namespace n on n.oid = t.typnamespace
  where n.nspname = any (${[...schemas]}) and ${OWN_TYPES} order by n.nspname, t.typname`;
}

export function namespacesQuery(schemas: readonly string[]): Sql {
  return sql`select n.nspname as name, (select count(distinct r.rolname)::int from aclexplode(n.nspacl) x
    join pg_roles r on r.oid = x.grantee
      where r.rolname = any (${[...API_ROLES]}) and x.privilege_type = 'USAGE') as granted
    from pg_namespace n where n.nspname = any (${[...schemas]})`;
}
