/**
 * A bounded map: when full, an entry that was not asked for since the last look goes. Second chance instead of a
 * strict order of use: asking only sets a mark, and most maps are asked thousands of times for each entry they lose.
 */
export class Lru<K, V> {
  readonly #entries = new Map<K, { value: V; isUsed: boolean }>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#entries.size;
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
    while (this.#entries.size >= this.#max) this.#forgetOne();
    this.#entries.set(key, { value, isUsed: false });
  }

  delete(key: K): void {
    this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
  }

  /** The oldest one; those that were used meanwhile go to the end once. */
  #forgetOne(): void {
    for (const [key, entry] of this.#entries) {
      this.#entries.delete(key);
      if (!entry.isUsed) return;
      entry.isUsed = false;
      this.#entries.set(key, entry);
    }
  }
}
