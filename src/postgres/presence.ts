// Which instances are alive: each names its sessions after itself, and the sessions past any pooler are counted. It needs
// no table, and an instance that was killed is gone as soon as the server has noticed.
import { randomBytes } from 'node:crypto';
import type { Queryable } from './owner-database.ts';
import { raw } from './sql.ts';

/** Kinds of sessions that an instance holds open all the time, on the direct address. */
const LASTING = ['listen', 'probe'];

/** Eight characters: `application_name` has room for 63, and may begin with a prefix of the operator's. */
export function newInstanceId(): string {
  return randomBytes(4).toString('hex');
}

/** `svc/<instance>/<kind>`, for `application_name`. */
export function sessionName(instance: string, kind: string): string {
  return `svc/${instance}/${kind}`;
}

/** The ids of the instances that serve from this database now, the own one included, in order. */
export async function readInstancesAlive(db: Queryable): Promise<string[]> {
  const rows = await db.query<{ instance: string }>(
    raw(`select distinct substring(application_name from '(?:^| )svc/([0-9a-f]{8})/(?:${LASTING.join('|')})$') as instance
      from pg_catalog.pg_stat_activity where datname = current_database() order by 1`),
  );
  return rows.flatMap(({ instance }) => instance ?? []);
}
