// Finds connections whose server vanished without closing them. Only a clock distinguishes them from slow ones
// (docs/decisions/0088).
import { ConnectionLost } from '../../pg-error.ts';
import type { PooledConnection } from '../pooled-connection.ts';

/** Two connections to the same server that die within this time have the same cause. */
const SAME_CAUSE_MS = 1_000;
/** After one dead connection, others that have a sent batch and no response for this long count as dead too. */
const QUIET_MS = 2_000;

/** The server did not report the end of its work, so the outcome of a write is unknown. */
class ConnectionSilent extends ConnectionLost {
  override name = 'ConnectionSilent';

  constructor() {
    super('the connection to PostgreSQL was closed: the server has fallen silent');
  }
}

export class DeathWatch {
  readonly #statementTimeoutMs: number;
  #last = { at: Number.NEGATIVE_INFINITY, target: '' };

  constructor(statementTimeoutMs: number) {
    this.#statementTimeoutMs = statementTimeoutMs;
  }

  /** Returns the servers that lost connections in this check. `isGone`: several connections were silent. */
  check(all: readonly PooledConnection[]): Array<{ readonly target: string; readonly isGone: boolean }> {
    const now = performance.now();
    const lost = new Map<string, boolean>();
    for (const connection of all.slice()) {
      if (!connection.wire.usable || !connection.isDead(now, this.#statementTimeoutMs)) continue;
      const { target } = connection;
      lost.set(target, this.#isSecond(target, now) || lost.get(target) === true);
      connection.wire.destroy(new ConnectionSilent());
    }
    for (const connection of all.slice()) {
      if (lost.get(connection.target) !== true || !connection.isQuiet(now, QUIET_MS)) continue;
      connection.wire.destroy(new ConnectionSilent());
    }
    return Array.from(lost, ([target, isGone]) => ({ target, isGone }));
  }

  #isSecond(target: string, now: number): boolean {
    const last = this.#last;
    this.#last = { at: now, target };
    return last.target === target && now - last.at < SAME_CAUSE_MS;
  }
}
