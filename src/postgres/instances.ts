// Lists the live instances. Each instance puts its id in the names of its direct sessions, and these are counted.
// This needs no table, and a killed instance disappears when the server closes its sessions.
import { randomBytes } from 'node:crypto';
import type { Queryable } from './owner-database.ts';
import { raw } from './sql.ts';

/** Kinds of sessions that an instance always holds open on the direct address. */
const PERMANENT_SESSIONS = ['listen', 'probe'];

/** Eight characters: `application_name` has room for 63, and may begin with a prefix of the operator's. */
export function newInstanceId(): string {
  return randomBytes(4).toString('hex');
}

/** `svc/<instance>/<kind>`, for `application_name`. */
export function sessionName(instance: string, kind: string): string {
  return `svc/${instance}/${kind}`;
}

/** Returns the sorted ids of all live instances of this database, including this one. */
export async function readInstancesAlive(db: Queryable): Promise<string[]> {
  const rows = await db.query<{ instance: string }>(
    raw(`select distinct
      substring(application_name from '(?:^| )svc/([0-9a-f]{8})/(?:${PERMANENT_SESSIONS.join('|')})$') as instance
      from pg_catalog.pg_stat_activity where datname = current_database() order by 1`),
  );
  return rows.flatMap(({ instance }) => instance ?? []);
}
