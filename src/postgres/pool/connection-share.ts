// Reserves some connections for callers without one, so that one caller cannot occupy the pool (docs/decisions/0157).
// The connections of a caller are counted on demand, so no counter can become wrong.
import { callerKey } from '../../lib/limits/caller-key.ts';
import { canTake, defaultReserve } from '../../lib/limits/fair-share.ts';
import type { Connections } from './connections.ts';
import type { Holder } from './job.ts';

/** Whether the caller with this key can have one more connection. */
export type Admits = (key: string) => boolean;

/** Key of the service itself: probes have no caller and need no share. */
const SERVICE_ITSELF = '';

const everyCaller: Admits = () => true;

export function holderKey(holder: Holder): string {
  const { sharer, cancellable } = holder;
  holder.key ??= sharer === undefined ? SERVICE_ITSELF : callerKey(sharer, cancellable?.address);
  return holder.key;
}

export class ConnectionShare {
  readonly #connections: Connections;
  readonly #reserve: number | undefined;
  /** Callers for which a connection is being opened. */
  readonly #opening = new Set<Holder>();

  /** `reserve`: connections kept for callers without one. Default: a quarter, at least two. */
  constructor(connections: Connections, reserve?: number) {
    this.#connections = connections;
    this.#reserve = reserve;
  }

  /** Whether the caller can have one more connection. */
  admits(holder: Holder): boolean {
    return !this.#isScarce(0) || this.#hasNone(holderKey(holder));
  }

  /** The same for many callers. `returned`: connections that are about to be free. Keys are compared only if needed. */
  admission(returned = 0): Admits {
    return this.#isScarce(returned) ? this.#hasNone : everyCaller;
  }

  /** A connection is being opened for this caller. The result is called when that has ended. */
  opening(holder: Holder): () => void {
    this.#opening.add(holder);
    return () => void this.#opening.delete(holder);
  }

  /** Whether the caller with this key has no connection, or is the service itself. */
  readonly #hasNone: Admits = (key) => {
    if (key === SERVICE_ITSELF) return true;
    for (const { attempts, holder } of this.#connections.all) {
      const user = attempts[0]?.job ?? holder;
      if (user && holderKey(user) === key) return false;
    }
    for (const holder of this.#opening) if (holderKey(holder) === key) return false;
    return true;
  };

  /** Only the reserve is left. */
  #isScarce(returned: number): boolean {
    const { idle, room, limit } = this.#connections;
    const reserve = this.#reserve ?? defaultReserve(limit);
    return reserve > 0 && !canTake({ free: idle + room + returned, reserve, held: 1 });
  }
}
