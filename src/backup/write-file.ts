// Writes the parts of a saved database: to a plain folder, or to a backup with optional encryption.
import { createWriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Digest, digesting } from './manifest.ts';
import { SEALED, type Seal } from './seal.ts';
import type { Target } from './target/target.ts';

/** Names have slashes. */
export type WriteFile = (name: string, source: Readable) => Promise<void>;

export function folderWriter(folder: string): WriteFile {
  return async (name, source) => {
    const path = join(folder, name);
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await pipeline(source, createWriteStream(path, { mode: 0o600, flush: true }));
  };
}

/** Records the digest of each written part. */
export class PartWriter {
  readonly #target: Target;
  readonly #folder: string;
  readonly #seal: Seal | undefined;
  readonly #parts = new Map<string, Digest>();

  constructor(target: Target, folder: string, seal: Seal | undefined) {
    this.#target = target;
    this.#folder = folder;
    this.#seal = seal;
  }

  /** Digests of the written files, keyed by file name. */
  get parts(): Record<string, Digest> {
    return Object.fromEntries(this.#parts);
  }

  readonly write: WriteFile = async (name, source) => {
    if (this.#seal === undefined) await this.writePlain(name, source);
    else await this.writePlain(`${name}${SEALED}`, await this.#seal.wrap(source));
  };

  async writePlain(name: string, source: Readable): Promise<void> {
    const { passed, digest } = digesting(source);
    await this.#target.write(`${this.#folder}/${name}`, passed);
    this.#parts.set(name, digest());
  }
}
