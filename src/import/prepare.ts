// `prepare`: the source's schema, buckets and policies as a svc.yaml to begin with. Only reads.
import { readUses } from '../migrate/commands/adoption/read-uses.ts';
import { renderPulled, withoutOmitted } from '../migrate/commands/pull.ts';
import { findGrantees, withoutUnservedPrivileges } from '../migrate/schema/rights/grants.ts';
import { REALTIME_MESSAGES, STORAGE_OBJECTS } from '../migrate/schema/rights/hosts.ts';
import type { LiveTable } from '../migrate/schema/live/live-schema.ts';
import { readLiveInside } from '../migrate/schema/live/read-live.ts';
import { PUBLIC } from '../migrate/schema/rights/roles.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { join, literal, sql } from '../postgres/sql.ts';
import { readBuckets, storageKey } from './buckets.ts';
import { realtimeKey } from './channels.ts';
import { readSource } from './source.ts';
import { EXCLUDED_SCHEMAS } from './tables.ts';

/** Returns the text of a svc.yaml. Its comments list what svc.yaml cannot express. */
export async function prepare(source: DatabaseAddress): Promise<string> {
  return await readSource(source, async (from) => {
    const schemas = await from.query<{ name: string }>(sql`
      select nspname as name from pg_namespace n
      where nspname not like 'pg\\_%' and nspname not in (${join(EXCLUDED_SCHEMAS.map(literal))})
        and not exists (select from pg_depend d where d.classid = 'pg_namespace'::regclass and d.objid = n.oid
          and d.deptype = 'e')
      order by nspname <> 'public', 1`);
    const live = await readLiveInside(
      from,
      schemas.map(({ name }) => name),
    );
    const extensions = live.extensions.filter(
      ({ name, schema }) => !OF_SUPABASE.has(name) && !NOT_HERE.has(schema),
    );
    const uses = await readUses(from, [...live.schemas.keys()]);
    const { live: remaining, omitted: dependants } = withoutOmitted(
      { ...live, extensions },
      () => true,
      uses,
    );
    const left: string[] = live.extensions
      .filter((extension) => !extensions.includes(extension))
      .map(({ name }) => `extension ${name}: it belongs to Supabase`);
    left.push(...dependants, ...(await readTriggersLeft(from)));
    const storage = storageKey(await readBuckets(from), remaining.hosted[STORAGE_OBJECTS], left);
    const realtime = realtimeKey(remaining.hosted[REALTIME_MESSAGES], left);
    const tables = new Map(
      [...remaining.tables].map(([key, table]) => [
        key,
        {
          ...(isOutOfReach(table) ? close(table) : table),
          grants: withoutUnservedPrivileges(table.grants),
        },
      ]),
    );
    return renderPulled({ ...remaining, tables }, () => true, { storage, realtime, omitted: left });
  });
}

/** Triggers on tables that svc makes itself; those on `auth.users` are in the file. */
async function readTriggersLeft(source: Queryable): Promise<string[]> {
  const rows = await source.query<{ line: string }>(sql`
    select 'trigger ' || t.tgname || ' of ' || n.nspname || '.' || c.relname || ': svc makes this table' as line
    from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
      join pg_proc p on p.oid = t.tgfoid join pg_namespace f on f.oid = p.pronamespace
    where not t.tgisinternal and n.nspname in ('auth', 'storage', 'realtime')
      and (n.nspname, c.relname) <> ('auth', 'users')
      and f.nspname not in (${join(EXCLUDED_SCHEMAS.map(literal))})
    order by 1`);
  return rows.map(({ line }) => line);
}

/** The API there serves `public`, to roles that have a grant; here it serves every table without `rls`. */
function isOutOfReach(table: LiveTable): boolean {
  const callers = ['anon', 'authenticated', PUBLIC];
  return (
    !table.rowSecurity &&
    (table.schema !== 'public' || !findGrantees(table).some((role) => callers.includes(role)))
  );
}

/** Written as `rls: []`. */
const close = (table: LiveTable): LiveTable => ({ ...table, rowSecurity: true, policies: [] });

const NOT_HERE = new Set(EXCLUDED_SCHEMAS.filter((schema) => schema !== 'extensions'));

/** Extensions that every hosted project has, or that need the hosted server. */
const OF_SUPABASE = new Set([
  'pg_cron',
  'pg_graphql',
  'pg_net',
  'pg_stat_statements',
  'pgjwt',
  'pgsodium',
  'supabase_vault',
  'wrappers',
]);
