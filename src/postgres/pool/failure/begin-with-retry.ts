// Acquires a connection for one caller and runs the first statements on it. If the connection fails, tries
// another.
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { WireStatement } from '../../wire/statement.ts';
import type { ConnectionPool } from '../connection-pool.ts';
import { abortError, type Cancellable } from '../job.ts';
import type { PooledConnection } from '../pooled-connection.ts';
import type { CallerIdentity } from '../../../lib/limits/caller-key.ts';
import { afterFailure, toCaller } from './after-failure.ts';

const UNNAMED = { isAboutName: false, isNameless: true };

/** `statements` must have no effect outside the session, because they can run again. */
export async function beginWithRetry(
  pool: Pick<ConnectionPool, 'acquire' | 'release' | 'failoverWaitMs'>,
  statements: readonly WireStatement[],
  cancellable: Cancellable | undefined,
  sharer: CallerIdentity | undefined,
): Promise<PooledConnection> {
  const since = performance.now();
  for (let failures = 1; ; failures += 1) {
    const connection = await pool.acquire(cancellable, sharer);
    if (cancellable) cancellable.cancel = () => connection.abandon();
    try {
      if (cancellable?.aborted) throw abortError(cancellable);
      await connection.wire.run(statements);
      return connection;
    } catch (thrown) {
      if (cancellable) cancellable.cancel = undefined;
      pool.release(connection);
      const error = thrown instanceof Error ? thrown : new Error(String(thrown));
      const isInTime = performance.now() - since < pool.failoverWaitMs;
      const next = afterFailure({ error, isRead: true, failures, isInTime, ...UNNAMED });
      if (next !== 'again' || cancellable?.aborted !== undefined) throw toCaller(error, true);
    }
    // Connections that died together with this one are detected only after this turn of the event loop.
    await nextTurn();
  }
}
