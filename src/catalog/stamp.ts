// A stamp of the exposed schemas. It changes with every DDL statement that can affect a request, from any client. It
// uses names and definitions, because row versions (xmin) also change with TRUNCATE and REFRESH.
import type { Queryable } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';

export async function readCatalogStamp(db: Queryable, schemas: readonly string[]): Promise<string> {
  const [row] = await db.query<{ stamp: string }>(sql`
    with wanted as materialized (select oid from pg_namespace where nspname = any(${schemas} :: text[])),
    relations as materialized (
      select oid, relname, relkind, relrowsecurity, relacl from pg_class
      where relnamespace in (select oid from wanted)
        and relkind in ('r', 'v', 'm', 'f', 'p') and not relispartition),
    parts (part) as (
      select concat_ws(' ', 'r', oid, relname, relkind, relrowsecurity, relacl) from relations
      union all
      select concat_ws(' ', 'a', attrelid, attnum, attname, atttypid, atttypmod, attnotnull, atthasdef, attacl)
        from pg_attribute where attrelid in (select oid from relations) and attnum > 0 and not attisdropped
      union all
      select concat_ws(' ', 'c', oid, conname, conrelid, confrelid, conkey, confkey, contype)
        from pg_constraint where conrelid in (select oid from relations)
      union all
      select concat_ws(' ', 'f', oid, proname, proargtypes, proargnames, prorettype, proretset, provolatile, proacl)
        from pg_proc where pronamespace in (select oid from wanted)
      union all
      select concat_ws(' ', 'v', ev_class, md5(ev_action)) from pg_rewrite
        where ev_class in (select oid from relations where relkind in ('v', 'm'))
      union all
      select concat_ws(' ', 'd', classoid, objoid, objsubid, description) from pg_description
        where objoid in (select oid from relations))
    select count(*) || ' ' || coalesce(sum(hashtextextended(part, 0)), 0) as stamp from parts`);
  return row?.stamp ?? '';
}
