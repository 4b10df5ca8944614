// Locks and lock retries. A statement has a short lock timeout and is retried, so that other sessions do not queue
// behind it. Only one instance migrates a database; other instances poll the lock.
import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Backoff } from '../lib/limits/backoff.ts';
import { type AdvisoryLock, tryLock, unlock } from '../postgres/advisory-lock.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { sql } from '../postgres/sql.ts';
import { MigrationRefused, problem } from './problem.ts';

const POLL_MIN_MS = 50;
const POLL_MAX_MS = 100;

/** Sleeps between two attempts to acquire a lock. A blocking wait would deadlock with a concurrent index build. */
export async function pause(): Promise<void> {
  await sleep(randomInt(POLL_MIN_MS, POLL_MAX_MS + 1));
}

/** A session-level advisory lock of this process. */
export class MigrationLock {
  #session: Queryable | null;
  readonly #lock: AdvisoryLock;

  private constructor(session: Queryable, lock: AdvisoryLock) {
    this.#session = session;
    this.#lock = lock;
  }

  static async try(session: Queryable, lock: AdvisoryLock): Promise<MigrationLock | null> {
    return (await tryLock(session, lock)) ? new MigrationLock(session, lock) : null;
  }

  /**
   * Moves the lock to another session, which keeps it until that session ends. The caller must ensure that no other
   * process can acquire the lock in between.
   */
  async moveTo(session: Queryable): Promise<void> {
    await this.release();
    while (!(await tryLock(session, this.#lock))) await pause();
  }

  /** Acquires the lock again after the session to which it was moved has ended. */
  async renew(session: Queryable): Promise<void> {
    if (this.#session !== null) return;
    while (!(await tryLock(session, this.#lock))) await pause();
    this.#session = session;
  }

  async release(): Promise<void> {
    const session = this.#session;
    this.#session = null;
    if (session) await unlock(session, this.#lock);
  }
}

export type LockSettings = { readonly lockTimeoutMs: number; readonly lockBudgetMs: number };

const MIN_WAIT_MS = 100;
const MAX_WAIT_MS = 3_200;

/** Retries `work` after lock timeouts and deadlocks until the budget is spent. `work` must roll back by itself. */
export async function withLockRetries<T>(
  session: Queryable,
  tables: readonly string[],
  settings: LockSettings,
  work: () => Promise<T>,
): Promise<T> {
  const deadline = Date.now() + settings.lockBudgetMs;
  const backoff = new Backoff({ minMs: MIN_WAIT_MS, maxMs: MAX_WAIT_MS, jitter: true });
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isDatabaseError(error, 'lock_not_available', 'deadlock_detected')) throw error;
      const wait = backoff.next();
      if (Date.now() + wait > deadline) throw await lockProblem(session, tables, settings);
      await sleep(wait);
    }
  }
}

async function lockProblem(
  session: Queryable,
  tables: readonly string[],
  settings: LockSettings,
): Promise<MigrationRefused> {
  const blockers = await session.query<{
    pid: number;
    name: string;
    state: string | null;
    since: string | null;
  }>(sql`
    select distinct a.pid, coalesce(nullif(a.application_name, ''), a.usename, '') as name, a.state,
      to_char(now() - a.xact_start, 'HH24:MI:SS') as since
    from pg_locks l join pg_stat_activity a on a.pid = l.pid
    where l.granted and l.locktype = 'relation' and a.pid <> pg_backend_pid()
      and l.relation::regclass::text = any (${[...tables, ...tables.map((table) => table.replace(/^public\./, ''))]})
    order by a.pid limit 5`);
  const sessions = blockers.map(
    ({ pid, name, state, since }) =>
      `pid ${pid} (${name}, ${state ?? 'state hidden'}${since ? `, for ${since}` : ''})`,
  );
  const cause = sessions.length > 0 ? `; blocked by: ${sessions.join(', ')}` : '';
  return new MigrationRefused([
    problem(
      'MIG-401',
      tables.join(', ') || 'database',
      `could not lock ${tables.join(', ')} within ${settings.lockBudgetMs / 1_000} s${cause}`,
      'No step is half done. Run the migration again when those sessions have ended.',
    ),
  ]);
}
