// Lists attributes of tables, functions and columns that a file cannot express, and objects that belong to the whole
// database. A new database made from the file does not have them.
import type { Queryable } from '../../../postgres/owner-database.ts';
import { sql, type Sql } from '../../../postgres/sql.ts';

/** Returns one line per attribute: the object and the reason. */
export async function readUndeclaredAttributes(
  session: Queryable,
  schemas: readonly string[],
): Promise<string[]> {
  const rows = await session.query<{ line: string }>(sql`
    with schema as (select oid, nspname as name from pg_namespace where nspname = any (${[...schemas]})),
    relation as (
      select c.*, s.name as schema, s.name || '.' || c.relname as full_name
      from pg_class c join schema s on s.oid = c.relnamespace
      where c.relkind in ('r', 'p') and not c.relispartition
        and not exists (select from pg_depend d
          where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'))
    ${TABLES} union all ${PARTITIONS} union all ${COLUMNS} union all ${CONSTRAINTS} union all ${COMMENTS}
    order by 1`);
  return rows.map(({ line }) => line.replaceAll('\n', ' '));
}

/** Returns one line per object outside schemas. */
export async function readUndeclaredInDatabase(session: Queryable): Promise<string[]> {
  const rows = await session.query<{ line: string }>(sql`${DATABASE_OBJECTS} order by 1`);
  return rows.map(({ line }) => line);
}

const TABLES: Sql = sql`
  select 'table ' || full_name || ': its policies also apply to the owner' as line from relation
    where relforcerowsecurity
  union all select 'table ' || full_name || ': storage parameters of its TOAST table ('
      || array_to_string(t.reloptions, ', ') || ')'
    from relation r join pg_class t on t.oid = r.reltoastrelid where t.reloptions is not null
  union all select 'table ' || full_name || ': it inherits from ' || string_agg(i.inhparent::regclass::text, ', ')
    from relation r join pg_inherits i on i.inhrelid = r.oid group by full_name
  union all select 'table ' || full_name || ': it is a table of the type ' || reloftype::regtype::text from relation
    where reloftype <> 0
  union all select 'table ' || full_name || ': it is in another tablespace' from relation where reltablespace <> 0
  union all select 'table ' || full_name || ': its replica identity is an index' from relation
    where relreplident = 'i'`;

/** Attributes of partitions that their table does not have. */
const PARTITIONS: Sql = sql`
  select 'partitions of ' || root.full_name || ': ' || own.what || ' (' || min(c.relname)
    || case when count(*) > 1 then ' and ' || count(*) - 1 || ' more' else '' end || ')' as line
  from pg_class c join schema s on s.oid = c.relnamespace join relation root on root.oid = pg_partition_root(c.oid)
  cross join lateral (select concat_ws(', ',
    case when exists (select from pg_index i join pg_class x on x.oid = i.indexrelid
      where i.indrelid = c.oid and not x.relispartition) then 'separate indexes' end,
    case when exists (select from pg_constraint k where k.conrelid = c.oid and k.contype in ('c', 'f', 'x')
      and k.conparentid = 0 and k.conislocal and k.coninhcount = 0) then 'separate constraints' end,
    case when exists (select from pg_trigger t
      where t.tgrelid = c.oid and not t.tgisinternal and t.tgparentid = 0) then 'separate triggers' end,
    case when c.relrowsecurity or exists (select from pg_policy p where p.polrelid = c.oid)
      then 'separate policies' end,
    case when exists (select from aclexplode(c.relacl) x where x.grantee <> c.relowner) then 'separate grants' end,
    case when c.reloptions is not null then 'storage parameters (' || array_to_string(c.reloptions, ', ') || ')' end
  ) as what) own
  where c.relispartition and c.relkind in ('r', 'p') and own.what <> ''
  group by root.full_name, own.what`;

const COLUMNS: Sql = sql`
  select case when count(*) = 1 then 'column ' || full_name || '.' || min(name)
    else 'columns ' || string_agg(name, ', ' order by number) || ' of ' || full_name end || ': ' || what
  from (select full_name, a.attname as name, a.attnum as number, concat_ws(', ',
      case when a.attstorage <> t.typstorage then 'its storage' end,
      case when a.attcompression <> '' then 'its compression' end,
      case when coalesce(a.attstattarget, -1) >= 0 then 'its statistics target' end,
      case when o.options <> '' then 'its options (' || o.options || ')' end) as what
    from relation r join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
      join pg_type t on t.oid = a.atttypid
      -- Statements can set only these options.
      cross join lateral (select coalesce(string_agg(option, ', '), '') as options from unnest(a.attoptions) option
        where option ~ '^n_distinct(_inherited)?=') o
    where a.attstorage <> t.typstorage or a.attcompression <> '' or coalesce(a.attstattarget, -1) >= 0
      or o.options <> '') attribute
  group by full_name, what
  union all select 'column ' || full_name || '.' || a.attname || ': its sequence starts with ' || q.seqstart
      || ' and increments by ' || q.seqincrement
    from relation r join pg_attribute a on a.attrelid = r.oid
      join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = r.oid
      and d.refobjsubid = a.attnum and d.classid = 'pg_class'::regclass and d.deptype in ('a', 'i')
    join pg_sequence q on q.seqrelid = d.objid where q.seqstart <> 1 or q.seqincrement <> 1`;

const CONSTRAINTS: Sql = sql`
  select 'constraint ' || k.conname || ' of ' || full_name || ': its INCLUDE'
    from relation r join pg_constraint k on k.conrelid = r.oid join pg_index i on i.indexrelid = k.conindid
    where k.contype in ('p', 'u') and i.indnatts <> i.indnkeyatts
  union all select 'constraint ' || k.conname || ' of ' || full_name || ': NO INHERIT'
    from relation r join pg_constraint k on k.conrelid = r.oid where k.contype = 'c' and k.connoinherit`;

/** Comments that the file cannot express. It contains comments of tables, columns, views, types and sequences. */
const COMMENTS: Sql = sql`
  select 'comment on ' || case p.prokind when 'p' then 'procedure ' else 'function ' end || s.name || '.' || p.proname
      || '(' || pg_get_function_identity_arguments(p.oid) || ')' from pg_proc p join schema s on s.oid = p.pronamespace
    where obj_description(p.oid, 'pg_proc') is not null and p.prokind in ('f', 'p') and p.proname not like 'svc\\_%'
      and not exists (select from pg_depend d
        where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
  union all select 'comment on constraint ' || k.conname || ' of ' || full_name
    from relation r join pg_constraint k on k.conrelid = r.oid
    where obj_description(k.oid, 'pg_constraint') is not null
  union all select 'comment on index ' || c.relname || ' of ' || full_name
    from relation r join pg_index i on i.indrelid = r.oid join pg_class c on c.oid = i.indexrelid
    where obj_description(c.oid, 'pg_class') is not null
  union all select 'comment on trigger ' || t.tgname || ' of ' || full_name
    from relation r join pg_trigger t on t.tgrelid = r.oid
    where not t.tgisinternal and obj_description(t.oid, 'pg_trigger') is not null
  union all select 'comment on policy ' || p.polname || ' of ' || full_name
    from relation r join pg_policy p on p.polrelid = r.oid
    where obj_description(p.oid, 'pg_policy') is not null`;

const DATABASE_OBJECTS: Sql = sql`
  select 'event trigger ' || evtname || ': it belongs to the whole database' as line from pg_event_trigger e
    where not exists (select from pg_depend d
      where d.classid = 'pg_event_trigger'::regclass and d.objid = e.oid and d.deptype = 'e')
  union all select 'foreign server ' || srvname || ': its rows are on another server' from pg_foreign_server
  union all select 'publication ' || pubname || ': the file does not declare publications' from pg_publication
    where pubname not in ('supabase_realtime', 'svc_realtime')
  union all select 'default privileges of ' || pg_get_userbyid(defaclrole) || coalesce(' in ' || n.nspname, '')
      || ': the file does not declare default privileges'
    from pg_default_acl d left join pg_namespace n on n.oid = d.defaclnamespace
    where pg_get_userbyid(defaclrole) not like 'svc\\_%'
      and (n.nspname is null or n.nspname not in ('auth', 'storage', 'realtime', 'svc_meta', 'svc_events'))
    group by defaclrole, n.nspname`;
