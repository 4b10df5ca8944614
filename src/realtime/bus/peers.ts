// The other instances: when each was last seen, and whether a notification of it was lost.

type Peer = { lastSeenAt: number; readonly numbers: Map<string, number> };

/** `isNew`: the first notification of the instance. `hasHole`: notifications before this one were lost. */
export type Arrival = { readonly isNew: boolean; readonly hasHole: boolean };

export class Peers {
  readonly #peers = new Map<string, Peer>();

  get size(): number {
    return this.#peers.size;
  }

  /** Records a notification. `number` counts the notifications of the instance on the channel. */
  record(name: string, channel: string, number: number): Arrival {
    const known = this.#peers.get(name);
    const peer = known ?? { lastSeenAt: 0, numbers: new Map<string, number>() };
    if (!known) this.#peers.set(name, peer);
    peer.lastSeenAt = performance.now();
    const last = peer.numbers.get(channel);
    peer.numbers.set(channel, number);
    return { isNew: !known, hasHole: last !== undefined && number !== last + 1 };
  }

  /** Returns false when the instance is not known. */
  remove(name: string): boolean {
    return this.#peers.delete(name);
  }

  /** Returns the names of the instances that have been silent for that time, in milliseconds. */
  silentFor(ms: number): string[] {
    const since = performance.now() - ms;
    return [...this.#peers].filter(([, { lastSeenAt }]) => lastSeenAt < since).map(([name]) => name);
  }
}
