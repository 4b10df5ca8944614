// Waiting for locks without blocking others: a statement gives up after a short lock_timeout, so that nobody queues
// behind it, and is tried again for a minute. The log names the sessions that hold the locks.
import type pg from 'pg';
import type { Log } from '../log/log.ts';
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { openClient } from '../postgres/connection.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { Problem } from '../problem/problem.ts';

export const LOCK_TIMEOUT_MS = 2_000;
const BUDGET_MS = 60_000;
const LOOK_EVERY_MS = 500;

type Blocker = { pid: number; application_name: string; usename: string | null; state: string | null };

/** Repeats `work`, which runs on the session `pid` and rolls back when it fails, until no lock is in its way. */
export async function pastLocks<T>(
  { address, pid, log }: { readonly address: DatabaseAddress; readonly pid: number; readonly log: Log },
  work: () => Promise<T>,
): Promise<T> {
  const deadline = Date.now() + BUDGET_MS;
  let blockers: readonly Blocker[] = [];
  const watch = startWatch(address, pid, (found) => {
    if (found.map((one) => one.pid).join() !== blockers.map((one) => one.pid).join())
      log.warn({ blockedBy: found }, 'preparing the database waits for a lock that others hold');
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

/** On a session of its own, because the one that waits cannot ask. */
function startWatch(
  address: DatabaseAddress,
  pid: number,
  onBlocked: (blockers: readonly Blocker[]) => void,
): { close(): Promise<void> } {
  let client: pg.Client | undefined;
  let looking: Promise<void> | undefined;
  const look = async (): Promise<void> => {
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
      // Not needed for waiting: only the names of the sessions are then missing.
      client = undefined;
    }
  };
  const timer = setInterval(() => {
    looking ??= look().finally(() => (looking = undefined));
  }, LOOK_EVERY_MS);
  return {
    async close() {
      clearInterval(timer);
      await looking;
      await client?.end().catch(() => {});
    },
  };
}

function blocked(blockers: readonly Blocker[], cause: Error): Problem {
  const list = blockers.map(
    ({ pid, application_name, usename, state }) =>
      `pid ${pid} (${application_name || usename || 'unknown'}, ${state ?? 'state hidden'})`,
  );
  return new Problem(
    'provision_blocked',
    503,
    `The database could not be prepared within a minute: others hold locks on the product's own tables${list.length > 0 ? `: ${list.join(', ')}` : ''}`,
    { cause, hint: 'Nothing is half done. Start again when those sessions are finished.' },
  );
}
