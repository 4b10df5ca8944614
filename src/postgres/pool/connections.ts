// The connections of a pool: which are open, which of those are idle, and when another may be opened.
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
  /** Where something had stood against openings, so that there may be room for more. `wasAway`: none had been open. */
  readonly onRoom: (wasAway: boolean) => void;
  readonly onRefused: () => void;
};

export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #events: OpeningEvents;
  readonly #all: PooledConnection[] = [];
  /** The one that was used last is at the end. */
  readonly #idle: PooledConnection[] = [];
  readonly openings: Openings;
  #standIns = 0;

  constructor(options: ConnectionsOptions, events: OpeningEvents) {
    this.#options = options;
    this.#events = events;
    this.openings = new Openings(options.max);
  }

  /** Those that are open, whatever they do. */
  get all(): readonly PooledConnection[] {
    return this.#all;
  }

  /** Some lead to a standby, because no primary was there when they were opened. */
  get leadToStandIn(): boolean {
    return this.#standIns > 0;
  }

  get idle(): number {
    return this.#idle.length;
  }

  get mayOpen(): boolean {
    return this.openings.mayStart(this.#all.length);
  }

  /** Opens one, which is not idle: whoever asked for it has it. */
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

  /** Opens until so many are as are kept when idle; each is handed on as soon as it is open. */
  async openMinimum(take: (connection: PooledConnection) => void): Promise<void> {
    const opening: Array<Promise<void>> = [];
    while (this.#all.length + this.openings.underWay < this.#options.minIdle && this.mayOpen) {
      opening.push(this.open().then(take));
    }
    await Promise.all(opening);
  }

  /** The idle one that was used last. */
  takeIdle(): PooledConnection | undefined {
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

  /** Cuts off what runs. */
  discardAll(): void {
    while (this.#all[0]) this.discard(this.#all[0]);
  }

  /** Those that are too old, and those that are idle for too long above the minimum. */
  discardOld(): void {
    const now = performance.now();
    this.discardIdle((one) => one.isOver(now));
    const oldest = Date.now() - this.#options.idleTimeoutMs;
    while (this.#idle.length > this.#options.minIdle) {
      const [connection] = this.#idle;
      if (!connection || connection.idleSince > oldest) return;
      this.discard(connection);
    }
  }
}

function remove<T>(list: T[], one: T): boolean {
  const at = list.indexOf(one);
  if (at >= 0) list.splice(at, 1);
  return at >= 0;
}
