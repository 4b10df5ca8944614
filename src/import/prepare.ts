// `prepare`: the source's schema, buckets and policies as a svc.yaml to begin with. Only reads.
import { renderPulled } from '../migrate/commands/pull.ts';
import { granteesOf } from '../migrate/schema/rights/grants.ts';
import { REALTIME_MESSAGES, STORAGE_OBJECTS } from '../migrate/schema/rights/hosts.ts';
import type { LiveTable } from '../migrate/schema/live/live-schema.ts';
import { readLiveInside } from '../migrate/schema/live/read-live.ts';
import { PUBLIC } from '../migrate/schema/rights/roles.ts';
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { join, literal, sql } from '../postgres/sql.ts';
import { readBuckets, storageKey } from './buckets.ts';
import { realtimeKey } from './channels.ts';
import { readSource } from './source.ts';
import { NOT_OF_THE_PROJECT } from './tables.ts';

/** The text of a svc.yaml; what it cannot say is named in its comments. */
export async function prepare(source: DatabaseAddress): Promise<string> {
  return await readSource(source, async (from) => {
    const schemas = await from.query<{ name: string }>(sql`
      select nspname as name from pg_namespace n
      where nspname not like 'pg\\_%' and nspname not in (${join(NOT_OF_THE_PROJECT.map(literal))})
        and not exists (select from pg_depend d where d.classid = 'pg_namespace'::regclass and d.objid = n.oid
          and d.deptype = 'e')
      order by nspname <> 'public', 1`);
    const live = await readLiveInside(
      from,
      schemas.map(({ name }) => name),
    );
    const left: string[] = [];
    const storage = storageKey(await readBuckets(from), live.hosted[STORAGE_OBJECTS], left);
    const realtime = realtimeKey(live.hosted[REALTIME_MESSAGES], left);
    const extensions = live.extensions.filter(({ name, schema }) => {
      const isOfTheProject = !OF_SUPABASE.has(name) && !NOT_HERE.has(schema);
      if (!isOfTheProject) left.push(`extension ${name}: it belongs to Supabase`);
      return isOfTheProject;
    });
    const tables = new Map(
      [...live.tables].map(([key, table]) => [key, isOutOfReach(table) ? close(table) : table]),
    );
    return renderPulled({ ...live, extensions, tables }, () => true, { storage, realtime, left });
  });
}

/** The API there serves `public`, to roles that have a grant; here it serves every table without `rls`. */
function isOutOfReach(table: LiveTable): boolean {
  const callers = ['anon', 'authenticated', PUBLIC];
  return (
    !table.rowSecurity &&
    (table.schema !== 'public' || !granteesOf(table).some((role) => callers.includes(role)))
  );
}

/** Written as `rls: []`. */
const close = (table: LiveTable): LiveTable => ({ ...table, rowSecurity: true, policies: [] });

const NOT_HERE = new Set(NOT_OF_THE_PROJECT.filter((schema) => schema !== 'extensions'));

/** In every project, whether it uses them or not, or of no use without the server that the project ran on. */
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
