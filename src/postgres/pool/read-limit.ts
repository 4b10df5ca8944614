// How many connections read at once (docs/decisions/0036).
import type { Connections } from './connections.ts';

/** A longer read may be waiting for something other than a processor, so it no longer counts against the limit. */
const LONG_READ_MS = 100;

export class ReadLimit {
  readonly most: number;
  readonly #connections: Connections;
  readonly #isNone: boolean;
  /** Connections that are being opened for a read. */
  #opening = 0;

  constructor(connections: Connections, max: number, maxReading = max) {
    this.#connections = connections;
    this.most = Math.min(maxReading, max);
    this.#isNone = this.most >= max;
  }

  /** Whether another connection can read. An arrow function, because it is passed as a callback. */
  readonly isOpen = (): boolean => {
    if (this.#isNone) return true;
    const now = performance.now();
    let reading = this.#opening;
    for (const { attempts } of this.#connections.all) {
      // An index, because destructuring would allocate an iterator for each connection.
      const first = attempts[0];
      if (first?.job.isRead === true && now - first.startedAt < LONG_READ_MS) reading += 1;
    }
    return reading < this.most;
  };

  /** A connection is being opened for a read; the result is called when that has ended. */
  opening(): () => void {
    this.#opening += 1;
    return () => void (this.#opening -= 1);
  }
}
