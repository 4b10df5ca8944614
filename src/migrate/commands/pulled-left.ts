// What a database has that a file has no word for. A pulled file lists it, so that nobody takes it for the whole database.
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { IS_FREE_SEQUENCE } from '../schema/live/live-queries.ts';
import { readLeftAttributes } from './adoption/left-attributes.ts';

/** A line each: kind, name and reason. Parts of tables, functions and types that live facts tell of are not among them. */
export async function readLeft(session: Queryable, schemas: readonly string[]): Promise<string[]> {
  const rows = await session.query<{ line: string }>(sql`
    with schema as (select oid, nspname as name from pg_namespace where nspname = any (${[...schemas]}))
    select 'foreign table ' || s.name || '.' || c.relname || ': its rows are elsewhere' as line
      from pg_class c join schema s on s.oid = c.relnamespace where c.relkind = 'f'
        and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
    union all
    select 'sequence ' || s.name || '.' || c.relname || ': it is unlogged, and a plain one in the file'
      from pg_class c join schema s on s.oid = c.relnamespace where ${IS_FREE_SEQUENCE} and c.relpersistence = 'u'
    order by 1`);
  const objects = rows.map(({ line }) => line.replaceAll('\n', ' '));
  return [...objects, ...(await readLeftAttributes(session, schemas))];
}
