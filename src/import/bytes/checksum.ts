// Whether bytes are those that the source's store took. Its tag of a file is their MD5, or, where the upload came in parts,
// the MD5 of the MD5s of all parts with their number. The size of the parts is not told, so that the usual ones are tried.
import { createHash } from 'node:crypto';

/** `unproven`: only the size can be compared. */
export type Verdict = 'equal' | 'different' | 'unproven';

const MIB = 1024 * 1024;
/** What clients of object stores cut uploads into, unless they are told otherwise. */
const USUAL_PARTS = [5, 6, 8, 10, 15, 16, 20, 24, 25, 32, 40, 48, 50, 64, 100, 128, 256, 512].map(
  (size) => size * MIB,
);

export class Checksum {
  readonly #tag: string | undefined;
  readonly #whole = createHash('md5');
  readonly #candidates: readonly PartsHash[];

  /** `tag` is what the source says, as far as it says something; `size` is that of the whole file. */
  constructor(tag: unknown, size: number) {
    this.#tag = typeof tag === 'string' ? tag.replaceAll('"', '') : undefined;
    const parts = Number(/^[0-9a-f]{32}-(\d+)$/.exec(this.#tag ?? '')?.[1] ?? 0);
    // All of one part have the same tag.
    const sizes = parts === 1 ? [Infinity] : USUAL_PARTS.filter((one) => Math.ceil(size / one) === parts);
    this.#candidates = parts === 0 ? [] : sizes.map((one) => new PartsHash(one));
  }

  update(bytes: Buffer): void {
    this.#whole.update(bytes);
    for (const candidate of this.#candidates) candidate.update(bytes);
  }

  /** Ends it. `tag` is that of the bytes as one part. */
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

/** The tag of bytes that were uploaded in parts of one size. */
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
      // Ended only when more comes: the last part may be a full one.
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
