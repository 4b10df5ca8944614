// Another product's schemas under the names that svc needs for its own. Nothing of them may be touched, so they are
// looked for before anything is made, and before rights are missed that would not help.
import { Problem } from '../problem/problem.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';

const FOREIGN_SCHEMAS = 'ADO-302';

/** Throws ADO-302 where `auth`, `storage` or `realtime` holds something that is not svc's. */
export async function refuseForeignSchemas(db: Queryable): Promise<void> {
  const found = await readForeignSchemas(db);
  if (found.length === 0) return;
  const names = found.map(({ name, owner }) => `${name} (of ${owner})`).join(' and ');
  throw new Problem(
    FOREIGN_SCHEMAS,
    500,
    `${FOREIGN_SCHEMAS}: this database already has the ${found.length === 1 ? 'schema' : 'schemas'} ${names} of another product, and svc needs ${found.length === 1 ? 'it' : 'them'} for itself. Nothing was changed.`,
    {
      hint: 'Point SVC_DATABASE_URL to a database of its own. svc migrate pull reads this one as a file for it without changing it; docs/adoption.md says how to move in, and svc import supabase takes over a Supabase project.',
    },
  );
}

type ForeignSchema = { readonly name: string; readonly owner: string };

/**
 * Once `svc_meta.object` is there, `auth` and `storage` are svc's; earlier versions had no `realtime`, so that is known by a
 * table of its own. What is not of svc_owner before that is not svc's.
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
