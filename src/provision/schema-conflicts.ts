// Detects schemas of other products with names that svc needs. svc must not change them, so the check runs before the
// first change and before the check of rights.
import { Problem } from '../problem/problem.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';

const FOREIGN_SCHEMAS = 'ADO-302';

/** Throws ADO-302 if `auth`, `storage` or `realtime` contains objects that do not belong to svc. */
export async function rejectSchemaConflicts(db: Queryable): Promise<void> {
  const found = await readForeignSchemas(db);
  if (found.length === 0) return;
  const names = found.map(({ name, owner }) => `${name} (of ${owner})`).join(' and ');
  const noun = found.length === 1 ? 'schema' : 'schemas';
  throw new Problem(
    FOREIGN_SCHEMAS,
    500,
    `${FOREIGN_SCHEMAS}: this database already has the ${noun} ${names} of another product, but svc needs ` +
      `${found.length === 1 ? 'this name' : 'these names'}. Nothing was changed.`,
    {
      hint:
        'Set SVC_DATABASE_URL to a separate database. svc migrate pull converts this database to a file without ' +
        'changing it. docs/adoption.md describes the adoption, and svc import supabase imports a Supabase project.',
    },
  );
}

type ForeignSchema = { readonly name: string; readonly owner: string };

/**
 * Finds schemas of other products. `auth` and `storage` belong to svc if `svc_meta.object` exists. `realtime` belongs
 * to svc if its table `messages_probe` exists, because earlier versions had no `realtime`. Otherwise a schema belongs
 * to svc if svc_owner owns all its objects.
 */
async function readForeignSchemas(db: Queryable): Promise<ForeignSchema[]> {
  return db.query<ForeignSchema>(sql`
    select n.nspname as name, n.nspowner::regrole::text as owner
    from pg_namespace n
    where n.nspname in ('auth', 'storage', 'realtime')
      and not exists (select from pg_class c join pg_namespace m on m.oid = c.relnamespace
        where (m.nspname, c.relname) = (case n.nspname when 'realtime' then 'realtime' else 'svc_meta' end,
          case n.nspname when 'realtime' then 'messages_probe' else 'object' end))
      and exists (
        select from (
          select relowner as owner from pg_class where relnamespace = n.oid
          union all select proowner from pg_proc where pronamespace = n.oid
          union all select typowner from pg_type where typnamespace = n.oid
        ) one where one.owner::regrole::text <> 'svc_owner')
    order by 1`);
}
