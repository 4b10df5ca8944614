import { freeChunk } from './free-chunk.ts';

/** Large buffers for reuse: allocating some hundred kilobytes for each answer would cost more than the answer itself. */
export class BufferPool {
  readonly #free: Buffer[] = [];
  readonly #most: number;
  readonly #maxBytes: number;

  /** Keeps at most `most` buffers of at most `maxBytes` each. */
  constructor(most: number, maxBytes: number) {
    this.#most = most;
    this.#maxBytes = maxBytes;
  }

  /** At least `bytes` long, with arbitrary content. */
  take(bytes: number): Buffer {
    // The one returned last is most likely still in the processor's cache.
    for (let at = this.#free.length - 1; at >= 0; at--) {
      const buffer = this.#free[at];
      if (buffer && buffer.length >= bytes) {
        this.#free.splice(at, 1);
        return buffer;
      }
    }
    return Buffer.allocUnsafeSlow(bytes);
  }

  /** Only when nothing reads from it any more. */
  give(buffer: Buffer): void {
    if (buffer.length > this.#maxBytes) {
      freeChunk(buffer);
      return;
    }
    if (this.#free.length >= this.#most) this.#free.shift();
    this.#free.push(buffer);
  }
}
