// The requests in progress, for the deadline clock and the shutdown.
import type { RequestScope } from '../../http/request-scope.ts';
import { callerKey } from '../../lib/limits/caller-key.ts';
import { canTake, defaultReserve } from '../../lib/limits/fair-share.ts';

/**
 * A list in which each request stores its index. A Set would be slower: after many additions and deletions V8
 * rehashes it
 * into new tables, each referenced by the previous one. Once an old table is promoted, requests in later
 * tables are no
 * longer collected with the young generation.
 */
export class InFlight implements Iterable<RequestScope> {
  readonly #scopes: RequestScope[] = [];

  get size(): number {
    return this.#scopes.length;
  }

  /**
   * Returns whether a request of this list fits into `max`. The last quarter serves only clients without
   * another request.
   * Clients are distinguished by network, because the caller is not known before the credentials are read.
   */
  hasRoomFor(scope: RequestScope, max: number): boolean {
    const units = { free: max - (this.size - 1), reserve: defaultReserve(max) };
    // Checks for another request of the client only near the limit.
    return (
      canTake({ ...units, held: 1 }) || canTake({ ...units, held: this.#hasOtherRequest(scope) ? 1 : 0 })
    );
  }

  #hasOtherRequest(scope: RequestScope): boolean {
    const key = callerKey(undefined, scope.address);
    return this.#scopes.some((request) => request !== scope && callerKey(undefined, request.address) === key);
  }

  add(scope: RequestScope): void {
    scope.place = this.#scopes.push(scope) - 1;
  }

  /** Does nothing if the request is not in the list. */
  delete(scope: RequestScope): void {
    const { place } = scope;
    if (this.#scopes[place] !== scope) return;
    const last = this.#scopes.pop();
    if (last === undefined || last === scope) return;
    this.#scopes[place] = last;
    last.place = place;
  }

  /** Iterates from last to first, so that a visited request may be deleted. */
  *[Symbol.iterator](): Iterator<RequestScope> {
    for (let at = this.#scopes.length - 1; at >= 0; at--) {
      const scope = this.#scopes[at];
      if (scope) yield scope;
    }
  }
}
