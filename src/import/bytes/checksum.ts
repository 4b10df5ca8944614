// Compares bytes with the tag that the source's store computed. The tag is the MD5 of the file, or for an upload in
// parts the MD5 of the parts' MD5s with their number. The part size is not recorded, so the usual sizes are tried.
import { createHash } from 'node:crypto';

/** `unproven`: only the size can be compared. */
export type Verdict = 'equal' | 'different' | 'unproven';

const MIB = 1024 * 1024;
/** Default part sizes of common clients of object stores. */
const USUAL_PARTS = [5, 6, 8, 10, 15, 16, 20, 24, 25, 32, 40, 48, 50, 64, 100, 128, 256, 512].map(
  (size) => size * MIB,
);

export class Checksum {
  readonly #tag: string | undefined;
  readonly #whole = createHash('md5');
  readonly #candidates: readonly PartsHash[];

  /** `tag` comes from the source and may be missing. `size` is the size of the whole file. */
  constructor(tag: unknown, size: number) {
    this.#tag = typeof tag === 'string' ? tag.replaceAll('"', '') : undefined;
    const parts = Number(/^[0-9a-f]{32}-(\d+)$/.exec(this.#tag ?? '')?.[1] ?? 0);
    // Any part size gives the same tag for a single part.
    const sizes =
      parts === 1 ? [Infinity] : USUAL_PARTS.filter((partSize) => Math.ceil(size / partSize) === parts);
    this.#candidates = parts === 0 ? [] : sizes.map((partSize) => new PartsHash(partSize));
  }

  update(bytes: Buffer): void {
    this.#whole.update(bytes);
    for (const candidate of this.#candidates) candidate.update(bytes);
  }

  /** Finishes the hash. `tag` is the tag of the bytes as one part. */
  finish(): { readonly tag: string; readonly verdict: Verdict } {
    const whole = this.#whole.digest('hex');
    return { tag: `"${whole}"`, verdict: this.#judge(whole) };
  }

  #judge(whole: string): Verdict {
    if (/^[0-9a-f]{32}$/.test(this.#tag ?? '')) return whole === this.#tag ? 'equal' : 'different';
    const isProven = this.#candidates.some((candidate) => candidate.finish() === this.#tag);
    return isProven ? 'equal' : 'unproven';
  }
}

/** Computes the tag of bytes uploaded in parts of one size. */
class PartsHash {
  readonly #size: number;
  readonly #all = createHash('md5');
  #part = createHash('md5');
  #bytes = 0;
  #parts = 0;

  constructor(size: number) {
    this.#size = size;
  }

  update(bytes: Buffer): void {
    let rest = bytes;
    while (rest.length > 0) {
      // Ends a part only when more bytes follow, because the last part may be full.
      if (this.#bytes === this.#size) this.#endPart();
      const piece = rest.subarray(0, this.#size - this.#bytes);
      this.#part.update(piece);
      this.#bytes += piece.length;
      rest = rest.subarray(piece.length);
    }
  }

  finish(): string {
    this.#endPart();
    return `${this.#all.digest('hex')}-${this.#parts}`;
  }

  #endPart(): void {
    this.#all.update(this.#part.digest());
    this.#part = createHash('md5');
    this.#bytes = 0;
    this.#parts += 1;
  }
}
