// The requests being answered now, for whoever has to end them: the clock, and the shutdown.
import type { RequestScope } from '../http/request-scope.ts';

/**
 * A list in which each request knows its place. A Set would do, but V8 gives a Set that is added to and deleted from
 * one table after the other, each pointing at the next: once one of them has grown old, no request that was ever in a
 * later one can be collected with the young.
 */
export class InFlight implements Iterable<RequestScope> {
  readonly #scopes: RequestScope[] = [];

  get size(): number {
    return this.#scopes.length;
  }

  add(scope: RequestScope): void {
    scope.place = this.#scopes.push(scope) - 1;
  }

  /** Harmless when it is not in the list any more. */
  delete(scope: RequestScope): void {
    const { place } = scope;
    if (this.#scopes[place] !== scope) return;
    const last = this.#scopes.pop();
    if (last === undefined || last === scope) return;
    this.#scopes[place] = last;
    last.place = place;
  }

  /** From the last to the first: whoever ends a request takes it out on the way. */
  *[Symbol.iterator](): Iterator<RequestScope> {
    for (let at = this.#scopes.length - 1; at >= 0; at--) {
      const scope = this.#scopes[at];
      if (scope) yield scope;
    }
  }
}
