// Waits for locks without blocking other sessions: a statement fails after a short lock_timeout, so that no session
// queues behind it, and is retried for a minute. The log names the sessions that hold the locks.
import type pg from 'pg';
import type { Log } from '../log/log.ts';
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { openClient } from '../postgres/connection.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { Problem } from '../problem/problem.ts';

export const LOCK_TIMEOUT_MS = 2_000;
const BUDGET_MS = 60_000;
const CHECK_INTERVAL_MS = 500;

type Blocker = { pid: number; application_name: string; usename: string | null; state: string | null };

/** Retries `work` after lock timeouts. `work` runs on the session `pid` and must roll back when it fails. */
export async function retryOnLockTimeout<T>(
  { address, pid, log }: { readonly address: DatabaseAddress; readonly pid: number; readonly log: Log },
  work: () => Promise<T>,
): Promise<T> {
  const deadline = Date.now() + BUDGET_MS;
  let blockers: readonly Blocker[] = [];
  const watch = startWatch(address, pid, (found) => {
    if (found.map((blocker) => blocker.pid).join() !== blockers.map((blocker) => blocker.pid).join())
      log.warn({ blockedBy: found }, 'preparing the database waits for a lock of another session');
    blockers = found;
  });
  try {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!isDatabaseError(error, 'lock_not_available', 'deadlock_detected')) throw error;
        if (Date.now() > deadline) throw blocked(blockers, error);
        await new Promise((resolve) => setTimeout(resolve, 100 + Math.random() * 400));
      }
    }
  } finally {
    await watch.close();
  }
}

/** Opens a separate session, because the waiting session cannot run a query. */
function startWatch(
  address: DatabaseAddress,
  pid: number,
  onBlocked: (blockers: readonly Blocker[]) => void,
): { close(): Promise<void> } {
  let client: pg.Client | undefined;
  let checking: Promise<void> | undefined;
  const checkBlockers = async (): Promise<void> => {
    try {
      if (!client) {
        client = await openClient({ address, applicationName: 'svc-provision-watch' });
        client.on('error', () => (client = undefined));
      }
      const { rows } = await client.query<Blocker>(
        `select pid, application_name, usename, state from pg_stat_activity
         where pid = any(pg_blocking_pids($1)) order by pid`,
        [pid],
      );
      if (rows.length > 0) onBlocked(rows);
    } catch {
      // The watch is optional. Without it only the names of the blocking sessions are missing.
      client = undefined;
    }
  };
  const timer = setInterval(() => {
    checking ??= checkBlockers().finally(() => (checking = undefined));
  }, CHECK_INTERVAL_MS);
  return {
    async close() {
      clearInterval(timer);
      await checking;
      await client?.end().catch(() => {});
    },
  };
}

function blocked(blockers: readonly Blocker[], cause: Error): Problem {
  const list = blockers.map(
    ({ pid, application_name, usename, state }) =>
      `pid ${pid} (${application_name || usename || 'unknown'}, ${state ?? 'state hidden'})`,
  );
  const sessions = list.length > 0 ? `: ${list.join(', ')}` : '';
  return new Problem(
    'provision_blocked',
    503,
    `The database could not be prepared within a minute: other sessions hold locks on the tables of svc${sessions}`,
    {
      cause,
      hint: 'No step is half done. Start again when those sessions have ended.',
    },
  );
}
