// A pipeline stage that counts and hashes the bytes passing through.
import { createHash } from 'node:crypto';

export class Digest {
  bytes = 0;
  readonly #hash = createHash('sha256');
  readonly #onBytes: (bytes: number) => void;

  /** `onBytes` gets the total after every chunk, and may throw to abort the pipeline. */
  constructor(onBytes: (bytes: number) => void = () => {}) {
    this.#onBytes = onBytes;
  }

  readonly through = (source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> => this.#read(source);

  /** Hexadecimal. Call once, after the pipeline has ended. */
  sha256(): string {
    return this.#hash.digest('hex');
  }

  async *#read(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of source) {
      this.bytes += chunk.length;
      this.#onBytes(this.bytes);
      this.#hash.update(chunk);
      yield chunk;
    }
  }
}
