// Retires unsuitable servers and sessions: a primary that has become a standby, a standby that replaced a missing
// primary, a session that another client uses. Their connections are closed as soon as they are idle.
import type { Connections } from '../connections.ts';
import type { PooledConnection } from '../pooled-connection.ts';

/** Limits how often writes that reach a standby retire all its connections. */
const RETIRE_INTERVAL_MS = 1_000;
/** How long reads use a standby before the pool looks for the primary again. */
const STANDBY_FALLBACK_MS = 5_000;
const NAMES_LOST_WITHIN_MS = 60_000;

/** `unknown`: the query failed. */
export type ServerKind = 'standby' | 'primary' | 'unknown';

export class RetiredServers {
  readonly #connections: Connections;
  readonly #onNotPrimary: ((target: string) => void) | undefined;
  #last = { at: Number.NEGATIVE_INFINITY, target: '' };
  #nameLostAt = Number.NEGATIVE_INFINITY;

  constructor(connections: Connections, onNotPrimary?: (target: string) => void) {
    this.#connections = connections;
    this.#onNotPrimary = onNotPrimary;
  }

  /** Checks whether a server that rejected a write is a standby, and retires it if so. */
  checkIsStandby(connection: PooledConnection, then: (kind: ServerKind) => void): void {
    connection.wire.send([{ text: 'select pg_is_in_recovery()', values: [] }], (error, results) => {
      const isStandby = results[0]?.rows[0]?.[0]?.toString() === 't';
      if (isStandby) this.#leave(connection);
      then(isStandby ? 'standby' : error === undefined ? 'primary' : 'unknown');
    });
  }

  #leave(connection: PooledConnection): void {
    connection.isLeaving = true;
    const { target } = connection;
    const now = performance.now();
    this.#onNotPrimary?.(target);
    if (this.#last.target === target && now - this.#last.at < RETIRE_INTERVAL_MS) return;
    this.#last = { at: now, target };
    for (const one of this.#connections.all) if (one.target === target) one.isLeaving = true;
    this.#connections.discardIdle(({ isLeaving }) => isLeaving);
  }

  /** Retires connections to a standby after a while, so that new ones find the primary. Called often. */
  retireFallbackStandbys(): void {
    if (!this.#connections.leadToStandIn) return;
    const before = performance.now() - STANDBY_FALLBACK_MS;
    for (const one of this.#connections.all) {
      if (one.isStandIn && one.openedAt < before) one.isLeaving = true;
    }
    this.#connections.discardIdle(({ isLeaving }) => isLeaving);
  }

  /**
   * Counts a lost statement name. The second one within a minute retires all sessions, because they are shared
   * although the measurement found them exclusive.
   */
  countLostName(): void {
    const now = performance.now();
    if (now - this.#nameLostAt < NAMES_LOST_WITHIN_MS) {
      for (const one of this.#connections.all) one.isLeaving = true;
    }
    this.#nameLostAt = now;
  }
}
