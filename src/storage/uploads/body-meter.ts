// Counts, hashes and checks the bytes of a body while they pass through.
import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { Abort } from '../../problem/problem.ts';
import { checkSniffedType, SNIFF_BYTES } from '../objects/content-type.ts';
import { StorageProblem, tooLarge } from '../problem.ts';

export type BodyLimits = {
  readonly maxBytes: number;
  readonly contentType: string;
  readonly allowedTypes: readonly string[];
  readonly signal: AbortSignal;
};

/** After a failure the connection stays open this long, so that the client can read the answer. */
const CLOSE_GRACE_MS = 250;

export class BodyMeter {
  readonly #hash = createHash('md5');
  readonly #limits: BodyLimits;
  #bytes = 0;
  #head: Buffer[] | undefined = [];

  constructor(limits: BodyLimits) {
    this.#limits = limits;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Hex MD5 of all bytes so far; call once, at the end. */
  digest(): string {
    return this.#hash.digest('hex');
  }

  /** The chunks of the body; throws when it exceeds a limit or breaks off. */
  async *watch(source: Readable): AsyncGenerator<Buffer, void, undefined> {
    const { signal } = this.#limits;
    let reason: Error | undefined;
    const expire = (): void => {
      const error = new Abort('deadline');
      reason ??= error;
      setTimeout(() => source.destroy(error), CLOSE_GRACE_MS).unref();
    };
    if (signal.aborted) expire();
    signal.addEventListener('abort', expire, { once: true });
    try {
      // Leaving the loop early must not destroy the socket: the refusal is still to be sent on it.
      for await (const chunk of source.iterator({ destroyOnReturn: false })) {
        if (!Buffer.isBuffer(chunk)) throw new TypeError('the body is not made of bytes');
        if (reason) throw reason;
        this.#consume(chunk);
        yield chunk;
      }
      this.#checkHead();
    } catch (error) {
      if (reason) throw reason;
      throw isBrokenStream(error) ? new Abort('client-gone') : error;
    } finally {
      signal.removeEventListener('abort', expire);
    }
  }

  #consume(chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes > this.#limits.maxBytes) throw tooLarge();
    this.#hash.update(chunk);
    if (!this.#head) return;
    this.#head.push(chunk);
    if (this.#bytes >= SNIFF_BYTES) this.#checkHead();
  }

  #checkHead(): void {
    if (!this.#head) return;
    const head = Buffer.concat(this.#head).subarray(0, SNIFF_BYTES);
    this.#head = undefined;
    checkSniffedType(head, this.#limits.contentType, this.#limits.allowedTypes);
  }
}

/** A body that ends too early: the client left. */
function isBrokenStream(error: unknown): boolean {
  if (!(error instanceof Error) || error instanceof StorageProblem || error instanceof Abort) return false;
  return (
    ('code' in error && /^(ECONNRESET|ERR_STREAM_PREMATURE_CLOSE|HPE_)/.test(String(error.code))) ||
    error.message === 'Unexpected end of form' ||
    error.message === 'aborted'
  );
}
