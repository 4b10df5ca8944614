// Finds connections whose server has vanished without closing them: nothing but a clock tells them from slow ones
// (docs/decisions/0088).
import { ConnectionLost } from '../../pg-error.ts';
import type { PooledConnection } from '../pooled-connection.ts';

/** Two connections to one server that die within this time have the same cause. */
const SAME_CAUSE_MS = 1_000;
/** Then those are dead too that have been sent something and have said nothing for so long. */
const QUIET_MS = 2_000;

/** The server did not report how its work ended: whether a write was done is unknown. */
export class ConnectionSilent extends ConnectionLost {
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

  /** Servers that have lost connections at this check; `isGone` when more than one connection says so. */
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
