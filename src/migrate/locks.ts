// Locks, waiting and retrying. A statement that cannot have its lock within moments gives up and comes back, so
// that nobody queues behind it; only one migrator works on a database, and the others look again instead of waiting.
import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
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
