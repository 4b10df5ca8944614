// Refresh tokens that another product issued: opaque, and stored as hashes. Each represents the imported state of its
// session, and is exchanged for the session's first token in our own format.
import { createHash } from 'node:crypto';
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';

/** Counter of an imported session for which svc has not issued a token yet. */
export const IMPORTED_COUNTER = 0;

export const hashImportedToken = (text: string): string => createHash('sha256').update(text).digest('hex');

/** Returns the session of the token. */
export async function findImportedToken(db: Queryable, text: string): Promise<string | undefined> {
  const [row] = await db.query<{ session_id: string }>(sql`
    select session_id from auth.refresh_tokens
    where token = ${hashImportedToken(text)} and revoked is not true and session_id is not null`);
  return row?.session_id;
}
