/** A bounded map: when full, the least recently used entry goes. */
export class Lru<K, V> {
  readonly #entries = new Map<K, V>();
  readonly #max: number;
  /** Asked for again it need not move: a map that is only read stays as it is. */
  #newest: K | undefined;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: K): V | undefined {
    const value = this.#entries.get(key);
    if (value === undefined) return undefined;
    if (key === this.#newest) return value;
    this.#newest = key;
    // A Map keeps insertion order: moving to the end is "used last".
    this.#entries.delete(key);
    this.#entries.set(key, value);
    return value;
  }

  set(key: K, value: V): void {
    this.#newest = key;
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#max) return;
    const oldest = this.#entries.keys().next();
    if (!oldest.done) this.#entries.delete(oldest.value);
  }

  delete(key: K): void {
    this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
  }
}
