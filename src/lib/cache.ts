/**
 * A bounded map with CLOCK (second chance) eviction: `get` only sets a mark, which is cheaper than keeping a strict
 * order of use, and a full cache evicts the oldest entry that was not read since the last round.
 */
export class Cache<K, V> {
  readonly #entries = new Map<K, { value: V; isUsed: boolean }>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Returns all values without counting it as a use. */
  values(): V[] {
    return [...this.#entries.values()].map(({ value }) => value);
  }

  get(key: K): V | undefined {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    entry.isUsed = true;
    return entry.value;
  }

  set(key: K, value: V): void {
    const entry = this.#entries.get(key);
    if (entry) {
      entry.value = value;
      entry.isUsed = true;
      return;
    }
    while (this.#entries.size >= this.#max) this.#evictOne();
    this.#entries.set(key, { value, isUsed: false });
  }

  delete(key: K): void {
    this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
  }

  /** Evicts the oldest unmarked entry. Marked entries lose their mark and move to the end. */
  #evictOne(): void {
    for (const [key, entry] of this.#entries) {
      this.#entries.delete(key);
      if (!entry.isUsed) return;
      entry.isUsed = false;
      this.#entries.set(key, entry);
    }
  }
}
