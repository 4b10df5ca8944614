// Locks, waiting and retrying. A statement that cannot get its lock within moments gives up and tries again, so that
// nobody queues behind it. Only one instance migrates a database; the others poll.
import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type AdvisoryLock, tryLock, unlock } from '../postgres/advisory-lock.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { sql } from '../postgres/sql.ts';
import { MigrationRefused, problem } from './problem.ts';

const POLL_MIN_MS = 50;
const POLL_MAX_MS = 100;

/** Between two looks at a lock. Never the blocking form: its snapshot deadlocks with a concurrent index build. */
export async function pause(): Promise<void> {
  await sleep(randomInt(POLL_MIN_MS, POLL_MAX_MS + 1));
}

/** A lock that this process holds. Ends with its session at the latest. */
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

  /** To another session, which then holds it to its end. Nobody else may be able to take it in between. */
  async moveTo(session: Queryable): Promise<void> {
    await this.release();
    while (!(await tryLock(session, this.#lock))) await pause();
  }

  /** After work of another session, to which it was moved. */
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

const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 3_200;

/** Runs `work` again while it fails for want of a lock, until the budget is spent. `work` rolls back by itself. */
export async function withLockRetries<T>(
  session: Queryable,
  tables: readonly string[],
  settings: LockSettings,
  work: () => Promise<T>,
): Promise<T> {
  const deadline = Date.now() + settings.lockBudgetMs;
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (!isDatabaseError(error, 'lock_not_available', 'deadlock_detected')) throw error;
      const wait = Math.min(FIRST_WAIT_MS * 2 ** attempt, LONGEST_WAIT_MS) * (0.5 + Math.random());
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
    who: string;
    state: string | null;
    since: string | null;
  }>(sql`
    select distinct a.pid, coalesce(nullif(a.application_name, ''), a.usename, '') as who, a.state,
      to_char(now() - a.xact_start, 'HH24:MI:SS') as since
    from pg_locks l join pg_stat_activity a on a.pid = l.pid
    where l.granted and l.locktype = 'relation' and a.pid <> pg_backend_pid()
      and l.relation::regclass::text = any (${[...tables, ...tables.map((table) => table.replace(/^public\./, ''))]})
    order by a.pid limit 5`);
  const list = blockers.map(
    (one) =>
      `pid ${one.pid} (${one.who}, ${one.state ?? 'state hidden'}${one.since ? `, for ${one.since}` : ''})`,
  );
  return new MigrationRefused([
    problem(
      'MIG-401',
      tables.join(', ') || 'database',
      `could not lock ${tables.join(', ')} within ${settings.lockBudgetMs / 1_000} s${list.length > 0 ? `; in the way: ${list.join(', ')}` : ''}`,
      'Nothing is half done; run it again when the sessions in the way are finished.',
    ),
  ]);
}
