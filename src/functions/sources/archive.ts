// The archive format of bundles and deployments: gzipped tar (ustar, with pax headers for long paths), which
// `tar tzf` can list. Plain files only; fixed order, times, owners and modes make it reproducible.
import { createReadStream } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import { dirname, join, normalize, sep } from 'node:path';
import { Readable } from 'node:stream';
import { createGunzip, createGzip } from 'node:zlib';
import { Problem } from '../../problem/problem.ts';

export type ArchiveEntry = {
  /** Relative, with forward slashes. */
  readonly path: string;
  readonly content: Buffer | { readonly file: string; readonly size: number };
};

export type UnpackLimits = { readonly maxBytes: number; readonly maxEntries: number };

const BLOCK = 512;
const MAX_PAX_BYTES = 64 * 1024;
const DEFAULT_LIMITS: UnpackLimits = { maxBytes: 2 * 1024 ** 3, maxEntries: 200_000 };
/** Position of the operating system in the gzip header; 255 means unknown (RFC 1952, 2.3.1). */
const GZIP_OS_BYTE = 9;

export function pack(entries: readonly ArchiveEntry[]): AsyncIterable<Buffer> {
  const sorted = [...entries].sort((a, b) => Buffer.compare(Buffer.from(a.path), Buffer.from(b.path)));
  return withoutOs(Readable.from(tar(sorted)).pipe(createGzip({ level: 9 })));
}

async function* withoutOs(gzip: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let at = 0;
  for await (const chunk of gzip) {
    if (at <= GZIP_OS_BYTE && at + chunk.length > GZIP_OS_BYTE) chunk[GZIP_OS_BYTE - at] = 255;
    at += chunk.length;
    yield chunk;
  }
}

async function* tar(entries: readonly ArchiveEntry[]): AsyncGenerator<Buffer> {
  for (const { path, content } of entries) {
    const size = Buffer.isBuffer(content) ? content.length : content.size;
    if (Buffer.byteLength(path) > 100) {
      const record = paxRecord('path', path);
      yield header('././@PaxHeader', record.length, 'x');
      yield record;
      yield padding(record.length);
      yield header(Buffer.from(path).subarray(0, 100).toString('latin1'), size, '0');
    } else yield header(path, size, '0');
    if (Buffer.isBuffer(content)) yield content;
    else {
      let read = 0;
      const chunks: AsyncIterable<Buffer> = createReadStream(content.file);
      for await (const chunk of chunks) {
        read += chunk.length;
        yield chunk;
      }
      if (read !== size) throw new Error(`${content.file} changed while it was being packed`);
    }
    yield padding(size);
  }
  yield Buffer.alloc(BLOCK * 2);
}

function header(name: string, size: number, type: '0' | 'x'): Buffer {
  const block = Buffer.alloc(BLOCK);
  block.write(name, 0, 100);
  block.write('0000644\0', 100);
  block.write('0000000\0', 108);
  block.write('0000000\0', 116);
  block.write(`${size.toString(8).padStart(11, '0')}\0`, 124);
  block.write('00000000000\0', 136);
  block.write('        ', 148);
  block.write(type, 156);
  block.write('ustar\x0000', 257);
  let sum = 0;
  for (const byte of block) sum += byte;
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return block;
}

/** `<length> <key>=<value>\n`; the length includes its own digits. */
function paxRecord(key: string, value: string): Buffer {
  const rest = ` ${key}=${value}\n`;
  const bytes = Buffer.byteLength(rest);
  const length = bytes + String(bytes + String(bytes).length).length;
  return Buffer.from(`${length}${rest}`);
}

/** Contents are padded to whole blocks. */
const paddingSize = (size: number): number => (BLOCK - (size % BLOCK)) % BLOCK;
const padding = (size: number): Buffer => Buffer.alloc(paddingSize(size));

/** Unpacks into an empty directory and returns the paths. Refuses anything but plain files below it. */
export async function unpack(
  archive: Readable,
  directory: string,
  limits: UnpackLimits = DEFAULT_LIMITS,
): Promise<string[]> {
  const gunzip = archive.pipe(createGunzip());
  // `pipe` does not forward errors.
  archive.on('error', (error) => gunzip.destroy(error));
  const reader = new Reader(gunzip);
  const paths: string[] = [];
  let bytes = 0;
  let longPath: string | undefined;
  try {
    for (;;) {
      const block = await reader.exactly(BLOCK);
      if (block.every((byte) => byte === 0)) return paths;
      const { name, size, type } = parseHeader(block);
      bytes += size;
      if (bytes > limits.maxBytes) throw unreadable('it unpacks to more bytes than allowed');
      if (type === 'x') {
        if (size > MAX_PAX_BYTES) throw unreadable('a header is too long');
        longPath = paxPath(await reader.exactly(size));
      } else {
        const path = longPath ?? name;
        longPath = undefined;
        if (type !== '0' && type !== '\0') throw unreadable(`${JSON.stringify(path)} is not a regular file`);
        if (paths.length >= limits.maxEntries) throw unreadable('it has more files than allowed');
        await writeEntry(reader, resolveInside(directory, path), size);
        paths.push(path);
      }
      await reader.exactly(paddingSize(size));
    }
  } finally {
    archive.destroy();
  }
}

async function writeEntry(reader: Reader, target: string, size: number): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  // `wx`: an entry must not overwrite an earlier one, or write through a link it left.
  const file = await open(target, 'wx', 0o644);
  try {
    for (let left = size; left > 0;) {
      const chunk = await reader.some(left);
      left -= chunk.length;
      await file.write(chunk);
    }
  } finally {
    await file.close();
  }
}

function parseHeader(block: Buffer): { name: string; size: number; type: string } {
  const stated = parseInt(text(block, 148, 8).trim(), 8);
  let sum = 0;
  block.forEach((byte, at) => (sum += at >= 148 && at < 156 ? 32 : byte));
  if (stated !== sum) throw unreadable('a header is damaged');
  const prefix = text(block, 345, 155);
  const name = text(block, 0, 100);
  const size = parseInt(text(block, 124, 12).trim(), 8);
  if (!Number.isSafeInteger(size) || size < 0) throw unreadable('a size is damaged');
  return { name: prefix === '' ? name : `${prefix}/${name}`, size, type: text(block, 156, 1) || '\0' };
}

function paxPath(record: Buffer): string | undefined {
  return /(?:^|\n)\d+ path=([^\n]*)\n/.exec(record.toString('utf8'))?.[1];
}

function text(block: Buffer, start: number, length: number): string {
  const field = block.subarray(start, start + length);
  const end = field.indexOf(0);
  return field.subarray(0, end < 0 ? length : end).toString('utf8');
}

function resolveInside(directory: string, path: string): string {
  const clean = normalize(path);
  if (
    path === '' ||
    path.includes('\0') ||
    path.includes('\\') ||
    /^([a-z]:|\/)/i.test(path) ||
    clean.split(sep).includes('..') ||
    clean.endsWith(sep)
  ) {
    throw unreadable(`the path ${JSON.stringify(path)} is not a relative path inside the archive`);
  }
  return join(directory, clean);
}

function unreadable(reason: string): Problem {
  return new Problem('bad_archive', 400, `The archive cannot be unpacked: ${reason}`);
}

/** Reads a stream in pieces of a given size. */
class Reader {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(source: Readable) {
    this.#chunks = source[Symbol.asyncIterator]();
  }

  async exactly(bytes: number): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for (let left = bytes; left > 0;) {
      const piece = await this.some(left);
      pieces.push(piece);
      left -= piece.length;
    }
    return Buffer.concat(pieces);
  }

  /** Returns between 1 and `max` bytes. */
  async some(max: number): Promise<Buffer> {
    while (this.#rest.length === 0) this.#rest = await this.#next();
    const taken = this.#rest.subarray(0, max);
    this.#rest = this.#rest.subarray(taken.length);
    return taken;
  }

  async #next(): Promise<Buffer> {
    const next = await this.#chunks.next().catch((cause: unknown) => {
      throw unreadable(cause instanceof Error ? cause.message : String(cause));
    });
    if (next.done) throw unreadable('it is truncated');
    return next.value;
  }
}
