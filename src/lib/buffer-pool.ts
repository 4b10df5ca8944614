/**
 * Large buffers that are used again and again. Memory outside the heap is costly to collect: a few hundred
 * kilobytes for each answer would keep the collector busier than the answers themselves.
 */
export class BufferPool {
  readonly #free: Buffer[] = [];
  readonly #most: number;
  readonly #maxBytes: number;

  /** At most `most` buffers of at most `maxBytes` are kept; whatever is larger is not. */
  constructor(most: number, maxBytes: number) {
    this.#most = most;
    this.#maxBytes = maxBytes;
  }

  /** At least `bytes` long, and with anything in it. */
  take(bytes: number): Buffer {
    // The last one returned is the one whose pages are still warm.
    for (let at = this.#free.length - 1; at >= 0; at--) {
      const buffer = this.#free[at];
      if (buffer && buffer.length >= bytes) {
        this.#free.splice(at, 1);
        return buffer;
      }
    }
    return Buffer.allocUnsafeSlow(bytes);
  }

  /** Only when nobody reads from it any more. */
  give(buffer: Buffer): void {
    if (buffer.length > this.#maxBytes) return;
    if (this.#free.length >= this.#most) this.#free.shift();
    this.#free.push(buffer);
  }
}
