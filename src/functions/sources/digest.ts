// Counts and hashes bytes on their way through a pipeline.
import { createHash } from 'node:crypto';

export class Digest {
  bytes = 0;
  readonly #hash = createHash('sha256');
  readonly #onBytes: (bytes: number) => void;

  /** `onBytes` is told the sum after every chunk, and may throw to end the pipeline. */
  constructor(onBytes: (bytes: number) => void = () => {}) {
    this.#onBytes = onBytes;
  }

  /** A stage for `pipeline`. */
  readonly through = (source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> => this.#read(source);

  /** In hexadecimal; once, when everything has passed. */
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
