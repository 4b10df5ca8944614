// Periodic cleaning: expired rows are deleted and signing keys rotate. In small batches, on one instance at a time; a
// missed round does no harm.
import { raw, sql, type Sql } from '../postgres/sql.ts';
import type { AuthContext } from './auth-context.ts';

const INTERVAL_MS = 60_000;
const BATCH = 500;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** How long the audit log and delivered mail are kept. */
const AUDIT_DAYS = 90;
const MAIL_DAYS = 7;

/** Advisory lock: `svc` in ASCII as a number (decimal, as PostgreSQL 15 reads no hexadecimal), and a number of its own. */
const LOCK: Sql = raw('7566947, 20');

export type Maintenance = { close(): Promise<void> };

export function startMaintenance(auth: AuthContext): Maintenance {
  let running: Promise<unknown> = Promise.resolve();
  const timer = setInterval(() => {
    running = maintain(auth).catch((error: unknown) =>
      auth.log.warn({ err: error, job: 'auth maintenance' }, 'auth maintenance failed'),
    );
  }, INTERVAL_MS);
  timer.unref();
  return {
    async close() {
      clearInterval(timer);
      await running;
    },
  };
}

/** One round; the number of deleted rows. */
export async function maintain(auth: AuthContext): Promise<number> {
  const now = auth.now();
  await auth.signingKeys.advance(now, auth.settings().jwtExpirySeconds);
  return await auth.db.transaction(async (db) => {
    if (!(await tryTransactionLock(db, 'authMaintenance'))) return 0;
    let removed = 0;
    for (const { table, key, condition } of expired(now, auth.settings().refreshExpirySeconds)) {
      const rows = await db.query(sql`
        delete from ${raw(table)} where ${raw(key)} in (
          select ${raw(key)} from ${raw(table)} where ${condition} limit ${BATCH} for update skip locked)
        returning 1`);
      removed += rows.length;
    }
    return removed;
  });
}

type Expired = { readonly table: string; readonly key: string; readonly condition: Sql };

function expired(now: Date, refreshExpirySeconds: number): Expired[] {
  const ago = (ms: number): Date => new Date(now.getTime() - ms);
  const dayAgo = ago(DAY_MS);
  return [
    {
      table: 'auth.sessions',
      key: 'id',
      condition: sql`not_after < ${dayAgo} or coalesce(refreshed_at, created_at) < ${ago(refreshExpirySeconds * 1000 + DAY_MS)}`,
    },
    { table: 'auth.refresh_tokens', key: 'id', condition: sql`revoked and updated_at < ${dayAgo}` },
    { table: 'auth.flow_state', key: 'id', condition: sql`created_at < ${dayAgo}` },
    { table: 'auth.one_time_tokens', key: 'id', condition: sql`expires_at < ${dayAgo}` },
    { table: 'auth.mfa_challenges', key: 'id', condition: sql`created_at < ${dayAgo}` },
    {
      table: 'auth.mfa_factors',
      key: 'id',
      condition: sql`status = 'unverified' and created_at < ${dayAgo}`,
    },
    { table: 'auth.email_throttle', key: 'ctid', condition: sql`sent_at < ${ago(HOUR_MS)}` },
    // A bucket that was not used for a day is full again.
    { table: 'auth.rate_limits', key: 'ctid', condition: sql`updated_at < ${dayAgo}` },
    { table: 'auth.audit_log_entries', key: 'id', condition: sql`created_at < ${ago(AUDIT_DAYS * DAY_MS)}` },
    {
      table: 'auth.mail_outbox',
      key: 'id',
      condition: sql`state not in ('pending', 'sending') and created_at < ${ago(MAIL_DAYS * DAY_MS)}`,
    },
  ];
}
