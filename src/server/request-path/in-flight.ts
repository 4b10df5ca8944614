// The requests being answered now, for the deadline clock and the shutdown.
import type { RequestScope } from '../../http/request-scope.ts';

/**
 * A list in which each request knows its index. Not a Set: V8 rehashes a Set with many additions and deletions into new
 * tables, each referenced by the one before. Once an old one is promoted, the requests in later ones are no longer
 * collected with the young generation.
 */
export class InFlight implements Iterable<RequestScope> {
  readonly #scopes: RequestScope[] = [];

  get size(): number {
    return this.#scopes.length;
  }

  add(scope: RequestScope): void {
    scope.place = this.#scopes.push(scope) - 1;
  }

  /** Does nothing when it is not in the list. */
  delete(scope: RequestScope): void {
    const { place } = scope;
    if (this.#scopes[place] !== scope) return;
    const last = this.#scopes.pop();
    if (last === undefined || last === scope) return;
    this.#scopes[place] = last;
    last.place = place;
  }

  /** From last to first, so that a request may be deleted while it is visited. */
  *[Symbol.iterator](): Iterator<RequestScope> {
    for (let at = this.#scopes.length - 1; at >= 0; at--) {
      const scope = this.#scopes[at];
      if (scope) yield scope;
    }
  }
}
