// Plans by the shape of their request. Values are no part of it, so one entry serves all of them.
import { Cache } from '../../lib/cache.ts';
import type { Exposed } from './exposed.ts';

const LONGEST_KEY = 4_000;

export class PlanCache {
  readonly #plans = new Cache<string, object>(2_000);
  #version = -1;

  /** `T` follows from the first word of the key: each action makes one type of plan. */
  get<T extends object>(exposed: Exposed, key: string, make: () => T): T {
    if (exposed.version !== this.#version) {
      this.#plans.clear();
      this.#version = exposed.version;
    }
    const known = this.#plans.get(key);
    if (known) return known as T;
    const made = make();
    if (key.length <= LONGEST_KEY) this.#plans.set(key, made);
    return made;
  }
}
