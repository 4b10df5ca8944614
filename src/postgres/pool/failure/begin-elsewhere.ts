// A connection for one caller, on which something was begun: elsewhere when the connection fails that beginning.
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { WireStatement } from '../../wire/statement.ts';
import type { ConnectionPool } from '../connection-pool.ts';
import { abortOf, type Cancellable } from '../job.ts';
import type { PooledConnection } from '../pooled-connection.ts';
import type { Sharer } from '../sharer.ts';
import { afterFailure, toCaller } from './after-failure.ts';

const UNNAMED = { isAboutName: false, isNameless: true };

/** `statements` do nothing by themselves, so they may be repeated. */
export async function begin(
  pool: Pick<ConnectionPool, 'acquire' | 'release' | 'failoverWaitMs'>,
  statements: readonly WireStatement[],
  cancellable: Cancellable | undefined,
  sharer: Sharer | undefined,
): Promise<PooledConnection> {
  const since = performance.now();
  for (let failures = 1; ; failures += 1) {
    const connection = await pool.acquire(cancellable, sharer);
    if (cancellable) cancellable.cancel = () => connection.abandon();
    try {
      if (cancellable?.aborted) throw abortOf(cancellable);
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
    // Connections that died with this one are known to be dead only after this turn of the event loop.
    await nextTurn();
  }
}
