// Blobs in a directory: `staging/<version>` while bytes arrive, then `blobs/ab/<version>` by rename, once they are
// durable. Object names never reach the disk.
import { constants } from 'node:fs';
import { mkdir, open, opendir, rename, rm, stat, link, lstat, type FileHandle } from 'node:fs/promises';
import { randomUUID } from 'node:crypto';
import { basename, dirname, join, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { hasCode } from '../../lib/error-code.ts';
import { freeChunk } from '../../lib/memory/free-chunk.ts';
import {
  assertVersion,
  BlobMissing,
  isVersion,
  once,
  removeEach,
  totalBytes,
  unusable,
  type Backend,
  type BlobRange,
  type Deletion,
  type ListedBlob,
  type StagedPart,
} from './backend.ts';
import { StoreMark } from './store-mark.ts';

/** Chunks from a socket are small, so several are written with one call. */
const WRITE_BATCH_BYTES = 512 * 1024;
/** Up to this size a blob is read with one call, which is faster than a stream. */
const READ_AT_ONCE_BYTES = 128 * 1024;
const READ_CHUNK_BYTES = 256 * 1024;

/** Number of directories: one for each prefix of two hexadecimal digits of a version. */
const SHARDS = 256;

const FILE_MODE = 0o640;
const DIRECTORY_MODE = 0o750;

export class LocalBackend implements Backend {
  readonly place: StoreMark;
  readonly #blobs: string;
  readonly #staging: string;
  /** Directories known to exist and to be synced. */
  readonly #shards = new Set<string>();

  constructor(root: string) {
    this.place = new StoreMark(root);
    this.#blobs = resolve(root, 'blobs');
    this.#staging = resolve(root, 'staging');
  }

  async check(): Promise<void> {
    await this.place.assertPresent();
    const probe = randomUUID();
    try {
      for (const directory of [this.#blobs, this.#staging]) {
        await mkdir(directory, { recursive: true, mode: DIRECTORY_MODE });
        if ((await lstat(directory)).isSymbolicLink()) throw new Error(`${directory} is a symbolic link`);
      }
      const [blobs, staging] = await Promise.all([stat(this.#blobs), stat(this.#staging)]);
      if (blobs.dev !== staging.dev) throw new Error('blobs/ and staging/ are on different file systems');
      await this.#makeShards();
      // A full disk still serves reads and deletions.
      await this.write(probe, once(Buffer.from('probe'))).catch((error: unknown) => {
        if (!isFull(error)) throw error;
      });
      await this.remove([{ version: probe, staged: true }]);
    } catch (cause) {
      throw unusable(
        'storage_directory',
        'The storage directory',
        'providers.storage.local.path in svc.yaml must be a writable directory on one file system.',
        cause,
      );
    }
  }

  async write(version: string, source: AsyncIterable<Buffer>): Promise<void> {
    await this.place.assertPresent();
    const staged = this.#stagingPath(version);
    const file = await open(staged, 'wx', FILE_MODE);
    try {
      try {
        await writeAll(file, source, 0);
        await file.datasync();
      } finally {
        await file.close();
      }
      await this.#publish(version, staged);
    } catch (error) {
      await rm(staged, { force: true }).catch(() => {});
      throw error;
    }
  }

  async read(version: string, size: number, range?: BlobRange): Promise<Readable | Buffer> {
    const start = range?.start ?? 0;
    const end = range?.end ?? size - 1;
    const file = await this.#open(
      version,
      this.#blobPath(version),
      constants.O_RDONLY | constants.O_NOFOLLOW,
    );
    const bytes = end - start + 1;
    if (bytes > READ_AT_ONCE_BYTES) {
      return file.createReadStream({ start, end, highWaterMark: READ_CHUNK_BYTES, autoClose: true });
    }
    try {
      const buffer = Buffer.allocUnsafe(Math.max(0, bytes));
      let filled = 0;
      while (filled < buffer.length) {
        const { bytesRead } = await file.read(buffer, filled, buffer.length - filled, start + filled);
        if (bytesRead === 0) throw new Error(`blob ${version} is shorter than its object`);
        filled += bytesRead;
      }
      return buffer;
    } finally {
      await file.close();
    }
  }

  async copy(from: string, to: string): Promise<void> {
    await this.place.assertPresent();
    // Blobs never change, so a hard link is as good as a copy.
    await this.#ensureShard(to);
    try {
      await link(this.#blobPath(from), this.#blobPath(to));
    } catch (error) {
      if (isMissing(error)) throw new BlobMissing(from);
      // No hard links on this file system, or too many of this file.
      if (!hasCode(error, 'EPERM', 'ENOTSUP', 'EMLINK', 'ENOSYS')) throw error;
      const source = await open(this.#blobPath(from), 'r');
      await this.write(to, source.createReadStream({ highWaterMark: READ_CHUNK_BYTES }));
      return;
    }
    await syncDirectory(dirname(this.#blobPath(to)));
  }

  async remove(deletions: readonly Deletion[]): Promise<ReadonlyMap<string, Error>> {
    // A missing directory would make every blob count as deleted.
    await this.place.assertPresent();
    return await removeEach(deletions, 1, async ({ version }) => {
      await rm(this.#blobPath(version), { force: true });
      await rm(this.#stagingPath(version), { force: true });
    });
  }

  async removeStaged(version: string): Promise<void> {
    await this.place.assertPresent();
    await rm(this.#stagingPath(version), { force: true });
  }

  async *list(): AsyncIterable<ListedBlob> {
    await this.place.assertPresent();
    for await (const path of filesBelow(this.#blobs, 1)) yield* listed(path, false);
    for await (const path of filesBelow(this.#staging, 0)) yield* listed(path, true);
  }

  async append(
    version: string,
    parts: readonly StagedPart[],
    source: AsyncIterable<Buffer>,
  ): Promise<StagedPart> {
    const path = this.#stagingPath(version);
    const offset = totalBytes(parts);
    await this.place.assertPresent();
    const file = await this.#open(version, path, parts.length === 0 ? 'w' : 'r+');
    try {
      // Drops bytes of an earlier attempt that was not recorded.
      await file.truncate(offset);
      const bytes = await writeAll(file, source, offset);
      await file.datasync();
      if (parts.length === 0) await syncDirectory(this.#staging);
      return { id: String(offset), bytes };
    } catch (error) {
      // The incomplete part would use up the remaining space.
      if (isFull(error)) await file.truncate(offset).catch(() => {});
      throw error;
    } finally {
      await file.close();
    }
  }

  async assemble(version: string, parts: readonly StagedPart[]): Promise<void> {
    await this.place.assertPresent();
    const path = this.#stagingPath(version);
    if (await exists(this.#blobPath(version))) return;
    const file = await this.#open(version, path, parts.length === 0 ? 'a' : 'r+');
    try {
      // Drops bytes after the recorded ones, left by a failed request.
      await file.truncate(totalBytes(parts));
      await file.datasync();
    } finally {
      await file.close();
    }
    await this.#publish(version, path);
  }

  async *readStaged(version: string, parts: readonly StagedPart[]): AsyncIterable<Buffer> {
    const bytes = totalBytes(parts);
    if (bytes === 0) return;
    const staged = this.#stagingPath(version);
    const path = (await exists(staged)) ? staged : this.#blobPath(version);
    const file = await this.#open(version, path, 'r');
    yield* file.createReadStream({ end: bytes - 1, highWaterMark: READ_CHUNK_BYTES });
  }

  close(): void {}

  async #open(version: string, path: string, flags: string | number): Promise<FileHandle> {
    return await open(path, flags, FILE_MODE).catch(async (error: unknown) => {
      // A blob is missing only in a directory that is there.
      await this.place.assertPresent();
      throw isMissing(error) ? new BlobMissing(version) : error;
    });
  }

  /** Moves a staged file to its blob path. The directory is synced: without that a rename may be lost. */
  async #publish(version: string, staged: string): Promise<void> {
    const path = this.#blobPath(version);
    await this.#ensureShard(version);
    try {
      await rename(staged, path);
    } catch (error) {
      if (!isMissing(error) || !(await exists(staged))) throw error;
      // Another process deleted the empty shard directory.
      this.#shards.delete(dirname(path));
      await this.#ensureShard(version);
      await rename(staged, path);
    }
    await syncDirectory(dirname(path));
  }

  async #ensureShard(version: string): Promise<void> {
    const shard = dirname(this.#blobPath(version));
    if (this.#shards.has(shard)) return;
    const created = await mkdir(shard, { recursive: true, mode: DIRECTORY_MODE });
    if (created !== undefined) await syncDirectory(this.#blobs);
    this.#shards.add(shard);
  }

  /** Creates all directories with one sync, so that no upload waits for a directory. */
  async #makeShards(): Promise<void> {
    for (let n = 0; n < SHARDS; n++) {
      const shard = join(this.#blobs, n.toString(16).padStart(2, '0'));
      await mkdir(shard, { recursive: true, mode: DIRECTORY_MODE });
      this.#shards.add(shard);
    }
    await syncDirectory(this.#blobs);
  }

  #blobPath(version: string): string {
    assertVersion(version);
    return join(this.#blobs, version.slice(0, 2), version);
  }

  #stagingPath(version: string): string {
    assertVersion(version);
    return join(this.#staging, version);
  }
}

async function writeAll(file: FileHandle, source: AsyncIterable<Buffer>, offset: number): Promise<number> {
  let position = offset;
  let batch: Buffer[] = [];
  let batched = 0;
  const flush = async (): Promise<void> => {
    const written = batch;
    let pending = batch;
    batch = [];
    batched = 0;
    while (pending.length > 0) {
      const { bytesWritten } = await file.writev(pending, position);
      position += bytesWritten;
      pending = dropBytes(pending, bytesWritten);
    }
    written.forEach(freeChunk);
  };
  for await (const chunk of source) {
    batch.push(chunk);
    batched += chunk.length;
    if (batched >= WRITE_BATCH_BYTES) await flush();
  }
  if (batched > 0) await flush();
  return position - offset;
}

/** The rest after a short write. */
function dropBytes(chunks: readonly Buffer[], bytes: number): Buffer[] {
  let skip = bytes;
  const rest: Buffer[] = [];
  for (const chunk of chunks) {
    if (skip >= chunk.length) {
      skip -= chunk.length;
      continue;
    }
    rest.push(chunk.subarray(skip));
    skip = 0;
  }
  return rest;
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } catch (error) {
    // Windows and some network file systems cannot sync a directory; their renames are durable without it.
    if (!hasCode(error, 'EPERM', 'EINVAL', 'EISDIR', 'ENOTSUP')) throw error;
  } finally {
    await directory.close();
  }
}

async function* filesBelow(directory: string, depth: number): AsyncIterable<string> {
  const entries = await ifPresent(opendir(directory));
  if (!entries) return;
  for await (const entry of entries) {
    const path = join(directory, entry.name);
    if (entry.isDirectory() && depth > 0) yield* filesBelow(path, depth - 1);
    else if (entry.isFile()) yield path;
  }
}

async function* listed(path: string, staged: boolean): AsyncIterable<ListedBlob> {
  const version = basename(path);
  if (!isVersion(version)) return;
  const found = await ifPresent(stat(path));
  if (found) yield { version, modifiedAt: found.mtime, staged };
}

async function exists(path: string): Promise<boolean> {
  return (await ifPresent(stat(path))) !== undefined;
}

async function ifPresent<T>(work: Promise<T>): Promise<T | undefined> {
  return await work.catch((error: unknown) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
}

function isMissing(error: unknown): boolean {
  return hasCode(error, 'ENOENT');
}

function isFull(error: unknown): boolean {
  return hasCode(error, 'ENOSPC', 'EDQUOT', 'EFBIG');
}
