// Revokes default rights of PUBLIC that no API role needs: temporary tables, large objects, messages in the write-ahead
// log, which a rollback does not remove, and statistics of tables, which every role with MAINTAIN can write since
// PostgreSQL 18. `svc_owner` keeps these rights.
import type { Queryable } from '../postgres/owner-database.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { raw, sql } from '../postgres/sql.ts';
import { isRace } from './cluster-race.ts';

/** Revokes the rights. Skips rights that this role cannot revoke. */
export async function revokePublicRights(db: Queryable): Promise<void> {
  const statements = [...(await temporaryRights(db)), ...revokeStatements(await ownFunctions(db))];
  for (const statement of statements) {
    try {
      await db.query(raw(statement));
    } catch (error) {
      // Revoking is optional, so a read-only database is accepted. Another instance may revoke concurrently.
      const isRefused = isDatabaseError(error, 'insufficient_privilege', 'read_only_sql_transaction');
      if (!isRefused && !isRace(error)) throw error;
    }
  }
}

/** Returns statements that revoke temporary tables, if this role can run them and they are needed. */
async function temporaryRights(db: Queryable): Promise<string[]> {
  const rows = await db.query<{ statement: string }>(sql`
    select format('revoke temporary on database %1$I from public; grant temporary on database %1$I to svc_owner',
        datname) as statement
      from pg_database where datname = current_database() and pg_has_role(current_user, datdba, 'usage')
        and has_database_privilege('public', oid, 'temporary')`);
  return rows.map(({ statement }) => statement);
}

/**
 * Returns functions of PostgreSQL that write and that PUBLIC may execute, such as `lo_create(oid)`. Omits functions for
 * large objects if the database contains large objects, because an application uses them.
 */
export async function publicWriters(db: Queryable): Promise<string[]> {
  return (await readWriters(db)).map(({ name }) => name);
}

/** Returns the statement that a superuser must run. Empty without functions. */
export function revokeStatements(functions: readonly string[]): string[] {
  if (functions.length === 0) return [];
  const list = functions.map((name) => `pg_catalog.${name}`).join(', ');
  return [`revoke execute on function ${list} from public; grant execute on function ${list} to svc_owner`];
}

/** Returns functions that this role can revoke. Only their owner, a superuser, can. */
async function ownFunctions(db: Queryable): Promise<string[]> {
  return (await readWriters(db)).filter(({ own }) => own).map(({ name }) => name);
}

type Writer = { readonly name: string; readonly own: boolean };

async function readWriters(db: Queryable): Promise<Writer[]> {
  return await db.query<Writer>(sql`
    select format('%I(%s)', p.proname, pg_get_function_identity_arguments(p.oid)) as name,
      pg_has_role(current_user, p.proowner, 'usage') as own
    from pg_catalog.pg_proc p
    where p.pronamespace = 'pg_catalog'::regnamespace and has_function_privilege('public', p.oid, 'execute')
      and (p.proname ~ '^(pg_logical_emit_message|pg_(restore|clear)_(relation|attribute)_stats)$'
        or p.proname ~ '^(lo_.*|loread|lowrite)$' and not exists (select from pg_catalog.pg_largeobject_metadata))
    order by 1`);
}
