// The archive format of bundles and deployments: gzipped tar (ustar, with pax headers for long paths), so that
// `tar tzf` shows what is inside. Only plain files; order, times, owners and modes are fixed, so that the same
// files make the same bytes.
import { createReadStream } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import { dirname, join, normalize, sep } from 'node:path';
import { Readable } from 'node:stream';
import { createGunzip, createGzip } from 'node:zlib';
import { Problem } from '../../problem/problem.ts';

export type ArchiveEntry = {
  /** With forward slashes, relative. */
  readonly path: string;
  readonly content: Buffer | { readonly file: string; readonly size: number };
};

export type UnpackLimits = { readonly maxBytes: number; readonly maxEntries: number };

const BLOCK = 512;
const DEFAULT_LIMITS: UnpackLimits = { maxBytes: 2 * 1024 ** 3, maxEntries: 200_000 };
/** Byte 9 of a gzip stream names the operating system; this is "unknown". */
const GZIP_OS_BYTE = 9;

/** The archive as a stream of bytes. */
export function pack(entries: readonly ArchiveEntry[]): AsyncIterable<Buffer> {
  const sorted = [...entries].sort((a, b) => Buffer.compare(Buffer.from(a.path), Buffer.from(b.path)));
  return neutralOs(Readable.from(tar(sorted)).pipe(createGzip({ level: 9 })));
}

async function* neutralOs(gzip: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
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
      yield padded(record);
      yield header(Buffer.from(path).subarray(0, 100).toString('latin1'), size, '0');
    } else yield header(path, size, '0');
    if (Buffer.isBuffer(content)) yield content;
    else {
      let read = 0;
      for await (const chunk of createReadStream(content.file)) {
        const bytes: Buffer = Buffer.isBuffer(chunk) ? chunk : Buffer.from(String(chunk));
        read += bytes.length;
        yield bytes;
      }
      if (read !== size) throw new Error(`${content.file} changed while it was being packed`);
    }
    const rest = size % BLOCK;
    if (rest > 0) yield Buffer.alloc(BLOCK - rest);
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

function paxRecord(key: string, value: string): Buffer {
  const rest = ` ${key}=${value}\n`;
  let length = Buffer.byteLength(rest);
  // The length counts its own digits.
  while (length !== Buffer.byteLength(rest) + String(length).length) {
    length = Buffer.byteLength(rest) + String(length).length;
  }
  return Buffer.from(`${length}${rest}`);
}

function padded(content: Buffer): Buffer {
  const rest = content.length % BLOCK;
  return rest === 0 ? content : Buffer.concat([content, Buffer.alloc(BLOCK - rest)]);
}

/** Unpacks into an empty directory; anything but plain files inside of it is refused. */
export async function unpack(
  archive: Readable,
  directory: string,
  limits: UnpackLimits = DEFAULT_LIMITS,
): Promise<string[]> {
  const reader = new BlockReader(archive.pipe(createGunzip()));
  // An error of the source would otherwise be nobody's.
  archive.on('error', (error) => reader.fail(error));
  const paths: string[] = [];
  let bytes = 0;
  let longPath: string | undefined;
  try {
    for (;;) {
      const block = await reader.take(BLOCK);
      if (!block || block.every((byte) => byte === 0)) return paths;
      const { name, size, type } = parseHeader(block);
      bytes += size;
      if (bytes > limits.maxBytes) throw unreadable('it unpacks to more than is sensible');
      if (type === 'x') {
        if (size > 64 * 1024) throw unreadable('a header is too long');
        longPath = paxPath(await reader.exactly(size));
        await reader.skipPadding(size);
        continue;
      }
      const path = longPath ?? name;
      longPath = undefined;
      if (type !== '0' && type !== '\0') throw unreadable(`${JSON.stringify(path)} is no plain file`);
      if (paths.length >= limits.maxEntries) throw unreadable('it has more files than is sensible');
      const target = inside(directory, path);
      await mkdir(dirname(target), { recursive: true });
      // `wx`: an entry must not write over, or through, what an earlier one left.
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
      await reader.skipPadding(size);
      paths.push(path);
    }
  } finally {
    archive.destroy();
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

function inside(directory: string, path: string): string {
  const clean = normalize(path);
  if (
    path === '' ||
    path.includes('\0') ||
    path.includes('\\') ||
    /^([a-z]:|\/)/i.test(path) ||
    clean.split(sep).includes('..') ||
    clean.endsWith(sep)
  ) {
    throw unreadable(`the path ${JSON.stringify(path)} leads outside`);
  }
  return join(directory, clean);
}

function unreadable(reason: string): Problem {
  return new Problem('bad_archive', 400, `The archive cannot be unpacked: ${reason}`);
}

/** Pulls exact amounts out of a stream of chunks. */
class BlockReader {
  readonly #source: Readable;
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(source: Readable) {
    this.#source = source;
    this.#chunks = source[Symbol.asyncIterator]();
  }

  fail(error: Error): void {
    this.#source.destroy(error);
  }

  /** Undefined at the end of the stream. */
  async take(bytes: number): Promise<Buffer | undefined> {
    while (this.#rest.length < bytes) {
      const next = await this.#next();
      if (!next) {
        if (this.#rest.length === 0) return undefined;
        throw unreadable('it is cut off');
      }
      this.#rest = this.#rest.length === 0 ? next : Buffer.concat([this.#rest, next]);
    }
    const taken = this.#rest.subarray(0, bytes);
    this.#rest = this.#rest.subarray(bytes);
    return taken;
  }

  async exactly(bytes: number): Promise<Buffer> {
    const taken = await this.take(bytes);
    if (!taken) throw unreadable('it is cut off');
    return taken;
  }

  /** Whatever is there, at most this. */
  async some(most: number): Promise<Buffer> {
    if (this.#rest.length === 0) {
      const next = await this.#next();
      if (!next) throw unreadable('it is cut off');
      this.#rest = next;
    }
    const taken = this.#rest.subarray(0, most);
    this.#rest = this.#rest.subarray(taken.length);
    return taken;
  }

  async skipPadding(size: number): Promise<void> {
    const rest = size % BLOCK;
    if (rest > 0) await this.exactly(BLOCK - rest);
  }

  async #next(): Promise<Buffer | undefined> {
    try {
      const { done, value } = await this.#chunks.next();
      return done ? undefined : value;
    } catch (cause) {
      if (cause instanceof Problem) throw cause;
      throw unreadable(cause instanceof Error ? cause.message : String(cause));
    }
  }
}
