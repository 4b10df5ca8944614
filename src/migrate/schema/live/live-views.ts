// Reads the views and materialized views of the database.
import type { Queryable } from '../../../postgres/owner-database.ts';
import { sql, type Sql } from '../../../postgres/sql.ts';
import { groupBy } from '../../../lib/group-by.ts';
import type { LiveView } from '../views.ts';
import { indexesQuery } from './live-queries.ts';
import type { IndexRow } from './live-rows.ts';

/** Reads the views that match `filter`, a condition on `c` (pg_class) and `n` (its pg_namespace). */
export async function readViews(
  session: Queryable,
  filter: Sql,
  triggers: ReadonlyMap<string, LiveView['triggers']> = new Map(),
): Promise<LiveView[]> {
  const rows = await session.query<Omit<LiveView, 'indexes' | 'triggers'>>(sql`
    with found as materialized (
      select c.oid, n.nspname, c.relname, c.relkind, c.relispopulated, c.reloptions, c.relacl, c.relowner
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where ${filter} and c.relkind in ('v', 'm')
        and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid
          and d.deptype = 'e')
    )
    select c.oid::text as oid, c.nspname as schema, c.relname as name, pg_get_viewdef(c.oid) as definition,
      c.relkind = 'm' as materialized, c.relispopulated as populated, pg_relation_size(c.oid)::float8 as bytes,
      not coalesce((select o.option_value::boolean from pg_options_to_table(c.reloptions) o
        where o.option_name = 'security_invoker'), false) as definer,
      coalesce((select o.option_value::boolean from pg_options_to_table(c.reloptions) o
        where o.option_name = 'security_barrier'), false) as barrier,
      (select o.option_value from pg_options_to_table(c.reloptions) o
        where o.option_name = 'check_option') as "checkOption",
      obj_description(c.oid, 'pg_class') as comment,
      (select json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod),
          'collation', (select l.collname from pg_collation l where l.oid = a.attcollation
            and l.collname <> 'default')) order by a.attnum)
        from pg_attribute a where a.attrelid = c.oid and a.attnum > 0) as columns,
      coalesce((select json_object_agg(a.attname, d.description) from pg_attribute a
        join pg_description d on d.classoid = 'pg_class'::regclass and d.objoid = c.oid and d.objsubid = a.attnum
        where a.attrelid = c.oid and a.attnum > 0), '{}') as "columnComments",
      coalesce((select json_object_agg(g.who, g.privileges) from (
        select coalesce(r.rolname, 'public') as who, array_agg(distinct x.privilege_type
          order by x.privilege_type) as privileges
        from aclexplode(c.relacl) x left join pg_roles r on r.oid = x.grantee
        where x.grantee <> c.relowner and (x.privilege_type = 'SELECT'
          or x.privilege_type in ('INSERT', 'UPDATE', 'DELETE') and c.relkind = 'v') group by 1) g), '{}') as grants,
      coalesce((select json_agg(distinct tn.nspname || '.' || t.relname) from pg_rewrite r
        join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
          and d.refclassid = 'pg_class'::regclass
        join pg_class t on t.oid = d.refobjid join pg_namespace tn on tn.oid = t.relnamespace
        where r.ev_class = c.oid and r.rulename = '_RETURN' and t.oid <> c.oid
          and t.relkind in ('r', 'p', 'v', 'm', 'f')), '[]') as reads
    from found c order by c.oid`);
  const materialized = rows.filter((row) => row.materialized).map(({ oid }) => oid);
  const indexes = groupBy(
    materialized.length > 0 ? await session.query<IndexRow>(indexesQuery(sql`${materialized}::oid[]`)) : [],
    (row) => row.relation,
  );
  return rows.map((row) => ({
    ...row,
    triggers: triggers.get(row.oid) ?? [],
    definition: row.definition.trim().replace(/;$/, ''),
    // Columns cannot be dropped from a view, so the number of a column is its position.
    indexes: (indexes.get(row.oid) ?? []).map((index) => ({
      ...index,
      columns: index.columns.flatMap((number) => row.columns[number - 1]?.name ?? []),
    })),
  }));
}
