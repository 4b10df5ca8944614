// Refresh tokens that another product has issued: opaque, and kept as hashes. Each stands for the state in which its
// session was imported, and gets the session's first token of our own form.
import { createHash } from 'node:crypto';
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';

/** The counter of an imported session of which no token was issued here. */
export const IMPORTED_COUNTER = 0;

export const hashImportedToken = (text: string): string => createHash('sha256').update(text).digest('hex');

/** The session that the token opens. */
export async function findImportedToken(db: Queryable, text: string): Promise<string | undefined> {
  const [row] = await db.query<{ session_id: string }>(sql`
    select session_id from auth.refresh_tokens
    where token = ${hashImportedToken(text)} and revoked is not true and session_id is not null`);
  return row?.session_id;
}
