// The open and idle connections of a pool, and the limits for opening others.
import { openWire, type ConnectionSettings } from '../connection.ts';
import { Openings } from './failure/openings.ts';
import { PooledConnection } from './pooled-connection.ts';

export type ConnectionsOptions = ConnectionSettings & {
  /** Most connections open at once. */
  readonly max: number;
  /** Connections kept open when idle. */
  readonly minIdle: number;
  readonly idleTimeoutMs: number;
  /** Connections are closed at about this age. */
  readonly maxAgeMs?: number | undefined;
  readonly onNotice?: ((message: string) => void) | undefined;
};

export type OpeningEvents = {
  /**
   * Called when an opening succeeds after a failure, so that there may be room for more. `wasAway`: no connection was
   * open.
   */
  readonly onRoom: (wasAway: boolean) => void;
  readonly onRefused: () => void;
};

export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #events: OpeningEvents;
  readonly #all: PooledConnection[] = [];
  /** The most recently used connection is last. */
  readonly #idle: PooledConnection[] = [];
  readonly openings: Openings;
  #standIns = 0;

  constructor(options: ConnectionsOptions, events: OpeningEvents) {
    this.#options = options;
    this.#events = events;
    this.openings = new Openings(options.max);
  }

  /** All open connections. */
  get all(): readonly PooledConnection[] {
    return this.#all;
  }

  /** Whether some connections lead to a standby, because no primary was reachable when they were opened. */
  get leadToStandIn(): boolean {
    return this.#standIns > 0;
  }

  get idle(): number {
    return this.#idle.length;
  }

  get canOpen(): boolean {
    return this.openings.canStart(this.#all.length);
  }

  /** Most connections that can be open now. */
  get limit(): number {
    return this.openings.limit;
  }

  /** Connections that can still be opened. */
  get room(): number {
    return Math.max(0, this.limit - this.#all.length - this.openings.underWay);
  }

  /** Opens a connection that its requester gets directly; it is never idle in between. */
  async open(): Promise<PooledConnection> {
    const { openings } = this;
    const startedAt = performance.now();
    openings.started();
    let connection: PooledConnection;
    try {
      const opened = await openWire(this.#options, this.#options.onNotice);
      connection = new PooledConnection(opened, this.#options.maxAgeMs);
    } catch (error) {
      openings.failed(this.#all.length, startedAt, error);
      this.#events.onRefused();
      throw error;
    }
    this.#all.push(connection);
    if (connection.isStandIn) this.#standIns += 1;
    connection.wire.onLost = () => {
      if (this.#idle.includes(connection)) this.discard(connection);
    };
    const { nextAt, isAway } = openings;
    openings.succeeded(this.#all.length);
    if (nextAt !== undefined) this.#events.onRoom(isAway);
    return connection;
  }

  /** Opens connections up to the minimum of idle ones, and passes each on as soon as it is open. */
  async openMinimum(take: (connection: PooledConnection) => void): Promise<void> {
    const opening: Array<Promise<void>> = [];
    while (this.#all.length + this.openings.underWay < this.#options.minIdle && this.canOpen) {
      opening.push(this.open().then(take));
    }
    await Promise.all(opening);
  }

  /** Returns the most recently used idle connection. */
  acquireIdle(): PooledConnection | undefined {
    for (;;) {
      const connection = this.#idle.pop();
      if (!connection || connection.wire.usable) return connection;
      this.discard(connection);
    }
  }

  rest(connection: PooledConnection): void {
    connection.idleSince = Date.now();
    this.#idle.push(connection);
  }

  discard(connection: PooledConnection): void {
    if (remove(this.#all, connection) && connection.isStandIn) this.#standIns -= 1;
    remove(this.#idle, connection);
    connection.wire.destroy();
  }

  discardIdle(isMeant: (connection: PooledConnection) => boolean): void {
    for (const connection of this.#idle.filter(isMeant)) this.discard(connection);
  }

  /** Closes all connections, including busy ones. */
  discardAll(): void {
    while (this.#all[0]) this.discard(this.#all[0]);
  }

  /** Discards connections that are too old, and those above the minimum that are idle for too long. */
  discardOld(): void {
    const now = performance.now();
    this.discardIdle((connection) => connection.isOver(now));
    const oldest = Date.now() - this.#options.idleTimeoutMs;
    while (this.#idle.length > this.#options.minIdle) {
      const [connection] = this.#idle;
      if (!connection || connection.idleSince > oldest) return;
      this.discard(connection);
    }
  }
}

function remove<T>(list: T[], item: T): boolean {
  const at = list.indexOf(item);
  if (at >= 0) list.splice(at, 1);
  return at >= 0;
}
