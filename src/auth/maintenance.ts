// Periodic maintenance: deletes expired rows and rotates signing keys, in small batches and on one instance at a time.
// A missed round does no harm.
import { tryTransactionLock } from '../postgres/advisory-lock.ts';
import { raw, sql, type Sql } from '../postgres/sql.ts';
import type { AuthContext } from './auth-context.ts';
import { rewriteAddresses } from './users/canonical-addresses.ts';
import { TRUSTED_NETWORK_DAYS } from './rate-limit.ts';

const INTERVAL_MS = 60_000;
const BATCH = 500;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Retention of the audit log and of delivered mail. */
const AUDIT_DAYS = 90;
const MAIL_DAYS = 7;

export type Maintenance = { close(): Promise<void> };

export function startMaintenance(auth: AuthContext): Maintenance {
  const logged = (work: Promise<unknown>): Promise<unknown> =>
    work.catch((error: unknown) =>
      auth.log.warn({ err: error, job: 'auth maintenance' }, 'auth maintenance failed'),
    );
  let running = logged(rewriteAddresses(auth));
  const timer = setInterval(() => {
    running = running.then(() => logged(maintain(auth)));
  }, INTERVAL_MS);
  timer.unref();
  return {
    async close() {
      clearInterval(timer);
      await running;
    },
  };
}

/** Runs one round. Returns the number of deleted rows. */
export async function maintain(auth: AuthContext): Promise<number> {
  const now = auth.now();
  await auth.signingKeys.advance(now);
  return await auth.db.transaction(async (db) => {
    if (!(await tryTransactionLock(db, 'authMaintenance'))) return 0;
    let removed = 0;
    for (const { table, condition, key = 'id' } of expired(now, auth.settings().refreshTokenExpirySeconds)) {
      const rows = await db.query(sql`
        delete from auth.${raw(table)} where ${raw(key)} in (
          select ${raw(key)} from auth.${raw(table)} where ${condition} limit ${BATCH} for update skip locked)
        returning 1`);
      removed += rows.length;
    }
    return removed;
  });
}

/** Deletes rows that match the condition. `key` selects the rows of a batch. */
type Expired = { readonly table: string; readonly condition: Sql; readonly key?: 'ctid' };

function expired(now: Date, refreshExpirySeconds: number): Expired[] {
  const ago = (ms: number): Date => new Date(now.getTime() - ms);
  const dayAgo = ago(DAY_MS);
  const unused = ago(refreshExpirySeconds * 1000 + DAY_MS);
  return [
    {
      table: 'sessions',
      condition: sql`not_after < ${dayAgo} or coalesce(refreshed_at, created_at) < ${unused}`,
    },
    { table: 'refresh_tokens', condition: sql`revoked and updated_at < ${dayAgo}` },
    { table: 'flow_state', condition: sql`created_at < ${dayAgo}` },
    { table: 'one_time_tokens', condition: sql`expires_at < ${dayAgo}` },
    { table: 'mfa_challenges', condition: sql`created_at < ${dayAgo}` },
    { table: 'mfa_factors', condition: sql`status = 'unverified' and created_at < ${dayAgo}` },
    { table: 'email_throttle', condition: sql`sent_at < ${ago(HOUR_MS)}`, key: 'ctid' },
    {
      table: 'trusted_networks',
      condition: sql`seen_at < ${ago(TRUSTED_NETWORK_DAYS * DAY_MS)}`,
      key: 'ctid',
    },
    { table: 'ended_sessions', condition: sql`until < ${now}` },
    // A bucket that was not used for a day is full again.
    { table: 'rate_limits', condition: sql`updated_at < ${dayAgo}`, key: 'ctid' },
    { table: 'audit_log_entries', condition: sql`created_at < ${ago(AUDIT_DAYS * DAY_MS)}` },
    {
      table: 'mail_outbox',
      condition: sql`state not in ('pending', 'sending') and created_at < ${ago(MAIL_DAYS * DAY_MS)}`,
    },
  ];
}
