// Checks the target of a restore, which must be an empty database. A restore that creates the schema first leaves a
// mark schema until it is done, so that it recognises its own database after an interruption.
import type { Queryable } from '../postgres/owner-database.ts';
import { literal, raw, sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';

const MARK = 'svc_restore';

/** Throws unless the database is empty, or contains an interrupted restore of the backup `id`. */
export async function assertEmpty(admin: Queryable, id: string): Promise<void> {
  if ((await readMark(admin)) === id) return;
  const [row] = await admin.query<{ found: string | null }>(
    raw(`select string_agg(what, ', ') as found from (
      select n.nspname || '.' || c.relname as what from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname !~ '^pg_' and n.nspname <> 'information_schema' and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
        and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid
          and d.deptype = 'e')
      order by 1 limit 3) x`),
  );
  const found = row?.found ?? null;
  if (found === null) return;
  throw new Problem('restore_not_empty', 500, `The database is not empty: it has ${found}`, {
    hint: 'Nothing is ever overwritten: make a new database, restore into that, and switch SVC_DATABASE_URL.',
  });
}

export async function markRestoring(admin: Queryable, id: string): Promise<void> {
  await admin.query(raw(`create schema if not exists ${MARK}`));
  await admin.query(sql`comment on schema ${raw(MARK)} is ${literal(id)}`);
}

export async function markRestored(admin: Queryable): Promise<void> {
  await admin.query(raw(`drop schema if exists ${MARK}`));
}

async function readMark(admin: Queryable): Promise<string | null> {
  const [row] = await admin.query<{ id: string | null }>(
    sql`select obj_description(to_regnamespace(${MARK})::oid, 'pg_namespace') as id`,
  );
  return row?.id ?? null;
}
