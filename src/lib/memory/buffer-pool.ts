import { freeChunk } from './free-chunk.ts';

/**
 * Reuses large buffers, because an allocation of some hundred kilobytes per response would cost more than the
 * response.
 */
export class BufferPool {
  readonly #free: Buffer[] = [];
  readonly #most: number;
  readonly #maxBytes: number;

  /** Keeps at most `most` buffers of at most `maxBytes` each. */
  constructor(most: number, maxBytes: number) {
    this.#most = most;
    this.#maxBytes = maxBytes;
  }

  /** Returns a buffer of at least `bytes`, with arbitrary content. */
  acquire(bytes: number): Buffer {
    // The buffer returned last is most likely still in the processor's cache.
    for (let at = this.#free.length - 1; at >= 0; at--) {
      const buffer = this.#free[at];
      if (buffer && buffer.length >= bytes) {
        this.#free.splice(at, 1);
        return buffer;
      }
    }
    return Buffer.allocUnsafeSlow(bytes);
  }

  /** Returns a buffer to the pool. It must have no readers. */
  give(buffer: Buffer): void {
    if (buffer.length > this.#maxBytes) {
      freeChunk(buffer);
      return;
    }
    if (this.#free.length >= this.#most) this.#free.shift();
    this.#free.push(buffer);
  }
}
