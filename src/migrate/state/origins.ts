// Looks up in the history of steps which runs added the objects that a plan removes.
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import { ofKind } from '../diff/change-kinds.ts';
import { removalOf } from '../plan/removal.ts';

type Origin = {
  readonly what: string;
  readonly run: string;
  readonly day: string;
  readonly instance: string;
};

/** Returns a note for each removed table or column whose run is known. A later rename of the table hides the run. */
export async function noteOrigins(session: Queryable, changes: readonly Change[]): Promise<string[]> {
  const removed = ofKind(changes, 'retire-table', 'retire-column');
  if (removed.length === 0) return [];
  const wanted = removed.map((change) => {
    const { table, identity, what } = removalOf(change);
    return { what, identity, table: `tables.${table.name}`, name: table.name };
  });
  const origins = await session.query<Origin>(sql`
    select distinct on (w.identity)
      w.what || case w.identity when w.table then '' else ' of ' || w.name end as what,
      r.id::text as run, to_char(r.started_at at time zone 'UTC', 'YYYY-MM-DD') as day, r.instance
    from jsonb_to_recordset(${JSON.stringify(wanted)}::jsonb) as w(what text, identity text, "table" text, name text)
    join svc_meta.step s on s.status = 'done' and (
      (s.identity = w.table and s.sql ~ '^create (unlogged )?table ')
      or (s.identity = w.identity and starts_with(s.summary, w.what || ' ')
        and s.sql like 'alter table % add column %'))
    join svc_meta.run r on r.id = s.run_id
    order by w.identity, r.id desc`);
  return origins.map(
    ({ what, run, day, instance }) => `${what} was added by run ${run} on ${day} (${instance})`,
  );
}
