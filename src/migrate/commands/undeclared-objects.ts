// Lists objects of a database that a file cannot express. A pulled file contains this list as a comment.
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { IS_FREE_SEQUENCE } from '../schema/live/live-queries.ts';
import { readUndeclaredAttributes } from './adoption/undeclared-attributes.ts';

/**
 * Returns one line per object: kind, name and reason. Omits parts of tables, functions and types that `Live` contains.
 */
export async function readUndeclaredObjects(
  session: Queryable,
  schemas: readonly string[],
): Promise<string[]> {
  const rows = await session.query<{ line: string }>(sql`
    with schema as (select oid, nspname as name from pg_namespace where nspname = any (${[...schemas]}))
    select 'foreign table ' || s.name || '.' || c.relname || ': its rows are on another server' as line
      from pg_class c join schema s on s.oid = c.relnamespace where c.relkind = 'f'
        and not exists (select from pg_depend d
          where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
    union all
    select 'sequence ' || s.name || '.' || c.relname || ': it is unlogged, but logged in the file'
      from pg_class c join schema s on s.oid = c.relnamespace where ${IS_FREE_SEQUENCE} and c.relpersistence = 'u'
    order by 1`);
  const objects = rows.map(({ line }) => line.replaceAll('\n', ' '));
  return [...objects, ...(await readUndeclaredAttributes(session, schemas))];
}
