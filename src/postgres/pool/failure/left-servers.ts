// Servers and sessions that turn out not to be what is wanted: a primary that has become a standby, a standby that was
// taken because no primary was there, a session that somebody else uses. Their connections are closed as soon as they are idle.
import type { Connections } from '../connections.ts';
import type { PooledConnection } from '../pooled-connection.ts';

/** Connections to a standby are not all opened anew for each write that meets it. */
const LEAVE_EVERY_MS = 1_000;
/** How long a standby is read from before the primary is looked for again. */
const STAND_IN_MS = 5_000;
const NAMES_LOST_WITHIN_MS = 60_000;

/** `unknown`: the server could not be asked. */
export type ServerKind = 'standby' | 'primary' | 'unknown';

export class LeftServers {
  readonly #connections: Connections;
  readonly #onNotPrimary: ((target: string) => void) | undefined;
  #last = { at: Number.NEGATIVE_INFINITY, target: '' };
  #nameLostAt = Number.NEGATIVE_INFINITY;

  constructor(connections: Connections, onNotPrimary?: (target: string) => void) {
    this.#connections = connections;
    this.#onNotPrimary = onNotPrimary;
  }

  /** Asks a server that took no write whether it is a standby, and leaves it if it is. */
  ask(connection: PooledConnection, then: (kind: ServerKind) => void): void {
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
    if (this.#last.target === target && now - this.#last.at < LEAVE_EVERY_MS) return;
    this.#last = { at: now, target };
    for (const one of this.#connections.all) if (one.target === target) one.isLeaving = true;
    this.#connections.discardIdle(({ isLeaving }) => isLeaving);
  }

  /** Asked often. New connections lead to the primary as soon as it is there. */
  leaveStandIns(): void {
    if (!this.#connections.leadToStandIn) return;
    const before = performance.now() - STAND_IN_MS;
    for (const one of this.#connections.all) {
      if (one.isStandIn && one.openedAt < before) one.isLeaving = true;
    }
    this.#connections.discardIdle(({ isLeaving }) => isLeaving);
  }

  /** The second one in a minute: sessions are not what they were found to be, which is found out for each new one. */
  countLostName(): void {
    const now = performance.now();
    if (now - this.#nameLostAt < NAMES_LOST_WITHIN_MS) {
      for (const one of this.#connections.all) one.isLeaving = true;
    }
    this.#nameLostAt = now;
  }
}
