// How a part of a backup is written: as it comes, or encrypted.
import { createWriteStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { SEALED, type Seal } from './seal.ts';

/** Answers the name that it has in the end. */
export type WriteFile = (path: string, source: Readable) => Promise<string>;

export function fileWriter(seal: Seal | undefined): WriteFile {
  return async (path, source) => {
    const name = seal === undefined ? path : `${path}${SEALED}`;
    const content = seal === undefined ? source : await seal.wrap(source);
    await pipeline(content, createWriteStream(name, { mode: 0o600, flush: true }));
    return name;
  };
}
