// Told to all instances when sessions end before their tokens do: by signing out, a ban, a deletion.
import type { Queryable } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';

export const SESSIONS_CHANNEL = 'svc_sessions';

/** In the transaction that ends them. Which they are is looked up by whoever hears it. */
export async function announceSessionEnds(db: Queryable): Promise<void> {
  await db.query(sql`select pg_catalog.pg_notify(${SESSIONS_CHANNEL}, '')`);
}
