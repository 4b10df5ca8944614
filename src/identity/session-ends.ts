// Notifies all instances that access ended before its tokens expire, by a sign-out, a ban or a deletion. A trigger of
// the database records deleted sessions. This module records refused users.
import type { Queryable } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';

export const SESSIONS_CHANNEL = 'svc_sessions';

/** Maximum lifetime of tokens of a former product. Sessions record the lifetime of tokens of svc. */
const MIN_REFUSAL_SECONDS = 86_400;

/**
 * Notifies other instances within the transaction that ends the sessions. The receiver looks up the sessions.
 */
export async function announceSessionEnds(db: Queryable): Promise<void> {
  await db.query(sql`select pg_catalog.pg_notify(${SESSIONS_CHANNEL}, '')`);
}

/** Refuses all tokens of a user, until `end` at most. */
export async function refuseUser(db: Queryable, userId: string, end: Date | null = null): Promise<void> {
  await acceptUser(db, userId);
  await db.query(sql`
    insert into auth.ended_sessions (user_id, until)
    values (${userId}, least(${end}::timestamptz, now() + make_interval(secs => greatest(${MIN_REFUSAL_SECONDS},
      (select max(token_seconds) + 60 from auth.sessions where user_id = ${userId})))))`);
  await announceSessionEnds(db);
}

/** Undoes `refuseUser`. */
export async function acceptUser(db: Queryable, userId: string): Promise<void> {
  await db.query(sql`delete from auth.ended_sessions where user_id = ${userId} and session_id is null`);
  await announceSessionEnds(db);
}
