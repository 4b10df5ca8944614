// Finds the schemas that belong to the project: not to PostgreSQL, svc or an extension.
import type { Queryable } from '../../../postgres/owner-database.ts';
import { sql } from '../../../postgres/sql.ts';

const SVC_SCHEMAS = ['auth', 'storage', 'realtime', 'svc_meta', 'svc_events'];

/** Returns the schemas to read, and in `omitted` one line for each schema that conflicts with a schema of svc. */
export async function readSchemas(
  session: Queryable,
): Promise<{ readonly read: readonly string[]; readonly omitted: readonly string[] }> {
  const rows = await session.query<{ name: string; ours: boolean }>(sql`
    select nspname::text as name, nspname = any (${SVC_SCHEMAS}) as ours from pg_namespace n
    where nspname !~ '^pg_' and nspname <> 'information_schema'
      and not exists (select from pg_depend d
        where d.classid = 'pg_namespace'::regclass and d.objid = n.oid and d.deptype = 'e')
    order by nspname <> 'public', 1`);
  const [state] = await session.query<{ ready: boolean }>(
    sql`select to_regclass('svc_meta.provision_step') is not null as ready`,
  );
  const foreign = state?.ready === true ? [] : rows.filter(({ ours }) => ours);
  return {
    read: rows.filter(({ ours }) => !ours).map(({ name }) => name),
    omitted: foreign.map(({ name }) => `schema ${name}: svc has a schema of this name`),
  };
}
