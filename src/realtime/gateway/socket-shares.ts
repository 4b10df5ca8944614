// Limits the sockets of one network, so that one address cannot use all of an instance.
import type { Client } from '../../http/client.ts';
import { AddressList, clientNetwork } from '../../lib/ip-address.ts';

/** Share of the sockets of an instance. */
const SHARE = 1 / 8;
/** Minimum per network, so that an office behind one address works with a small `limits.connections`. */
const MIN_SOCKETS = 32;

const PRIVATE = new AddressList(['loopback', 'private']);

export class SocketShares {
  readonly #counts = new Map<string, number>();

  /** `max`: limit for the sockets of all networks. */
  hasRoom(client: Client, max: number): boolean {
    if (isProbablyProxy(client)) return true;
    const share = Math.max(MIN_SOCKETS, Math.ceil(max * SHARE));
    return (this.#counts.get(clientNetwork(client.address)) ?? 0) < share;
  }

  /** Counts a socket. Returns a function that stops counting it. */
  enter({ address }: Client): () => void {
    const network = clientNetwork(address);
    this.#counts.set(network, (this.#counts.get(network) ?? 0) + 1);
    return () => {
      const left = (this.#counts.get(network) ?? 1) - 1;
      if (left === 0) this.#counts.delete(network);
      else this.#counts.set(network, left);
    };
  }
}

/**
 * A private address that no trusted proxy has reported. All clients behind a load balancer that
 * `server.trusted_proxies` does not name have it, so it must not have a separate share.
 */
function isProbablyProxy({ address, via }: Client): boolean {
  return via === 'peer' && PRIVATE.has(address);
}
