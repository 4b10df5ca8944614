// Caches plans by the shape of the request. The shape excludes values, so one entry serves all of them.
import { Cache } from '../../lib/cache.ts';
import type { Exposed } from './exposed.ts';

const MAX_KEY_CHARS = 4_000;

export class PlanCache {
  readonly #plans = new Cache<string, object>(2_000);
  #version = -1;

  /** `T` depends on the first word of the key: each action creates one type of plan. */
  get<T extends object>(exposed: Exposed, key: string, make: () => T): T {
    if (exposed.version !== this.#version) {
      this.#plans.clear();
      this.#version = exposed.version;
    }
    const known = this.#plans.get(key);
    if (known) return known as T;
    const made = make();
    if (key.length <= MAX_KEY_CHARS) this.#plans.set(key, made);
    return made;
  }
}
