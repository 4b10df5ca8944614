// Blobs in a directory: `blobs/ab/<version>`, and `staging/<version>` while they arrive. Names never reach the
// disk, so there is nothing to traverse, fold or collide. A blob appears by rename, after its bytes are durable.
import { constants } from 'node:fs';
import { mkdir, open, opendir, rename, rm, stat, link, lstat, type FileHandle } from 'node:fs/promises';
import { randomUUID } from 'node:crypto';
import { dirname, join, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { hasCode } from '../../lib/error-code.ts';
import { releaseBytes } from '../../lib/release-bytes.ts';
import { Problem } from '../../problem/problem.ts';
import {
  BlobMissing,
  isVersion,
  type Backend,
  type BlobRange,
  type Doomed,
  type ListedBlob,
  type StagedPart,
} from './backend.ts';

/** Chunks from a socket are small; several are written with one call. */
const WRITE_BATCH_BYTES = 512 * 1024;
/** Up to this size a blob is read with one call instead of a stream: three system calls, no event machinery. */
const READ_AT_ONCE_BYTES = 128 * 1024;
const READ_CHUNK_BYTES = 256 * 1024;

/** Directories by the first two hexadecimal digits of a version. */
const SHARDS = 256;

const FILE_MODE = 0o640;
const DIRECTORY_MODE = 0o750;

export class LocalBackend implements Backend {
  readonly location = 'local';
  readonly #root: string;
  readonly #blobs: string;
  readonly #staging: string;
  /** Shard directories known to exist durably. */
  readonly #shards = new Set<string>();

  constructor(root: string) {
    this.#root = resolve(root);
    this.#blobs = join(this.#root, 'blobs');
    this.#staging = join(this.#root, 'staging');
  }

  async check(): Promise<void> {
    const probe = randomUUID();
    try {
      await mkdir(this.#blobs, { recursive: true, mode: DIRECTORY_MODE });
      await mkdir(this.#staging, { recursive: true, mode: DIRECTORY_MODE });
      for (const directory of [this.#blobs, this.#staging]) {
        if ((await lstat(directory)).isSymbolicLink()) throw new Error(`${directory} is a symbolic link`);
      }
      const [blobs, staging] = await Promise.all([stat(this.#blobs), stat(this.#staging)]);
      if (blobs.dev !== staging.dev) throw new Error('blobs/ and staging/ are on different file systems');
      await this.#makeShards();
      // What is full can still be read, and be made room in.
      await this.write(probe, once(Buffer.from('probe'))).catch((error: unknown) => {
        if (!isFull(error)) throw error;
      });
      await this.remove([{ version: probe, staged: true }]);
    } catch (cause) {
      throw new Problem(
        'storage_directory',
        500,
        `The storage directory cannot be used: ${cause instanceof Error ? cause.message : String(cause)}`,
        {
          cause,
          hint: 'providers.storage.local.path in svc.yaml must be a writable directory on one file system.',
        },
      );
    }
  }

  async write(version: string, source: AsyncIterable<Buffer>): Promise<void> {
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
    const file = await open(this.#blobPath(version), constants.O_RDONLY | constants.O_NOFOLLOW).catch(
      (error: unknown) => {
        throw isMissing(error) ? new BlobMissing(version) : error;
      },
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
        if (bytesRead === 0) throw new Error(`blob ${version} is shorter than its object says`);
        filled += bytesRead;
      }
      return buffer;
    } finally {
      await file.close();
    }
  }

  async copy(from: string, to: string): Promise<void> {
    // Blobs never change, so two names for the same bytes are as good as two copies.
    await this.#ensureShard(to);
    try {
      await link(this.#blobPath(from), this.#blobPath(to));
    } catch (error) {
      if (isMissing(error)) throw new BlobMissing(from);
      // File systems without hard links, and ones with too many of them.
      if (!hasCode(error, 'EPERM', 'ENOTSUP', 'EMLINK', 'ENOSYS')) throw error;
      const source = await open(this.#blobPath(from), 'r');
      await this.write(to, source.createReadStream({ highWaterMark: READ_CHUNK_BYTES }));
      return;
    }
    await syncDirectory(dirname(this.#blobPath(to)));
  }

  async remove(doomed: readonly Doomed[]): Promise<ReadonlyMap<string, Error>> {
    const failures = new Map<string, Error>();
    for (const { version } of doomed) {
      // Rows can be written with SQL: what never was one of our names has no bytes to delete.
      if (!isVersion(version)) continue;
      try {
        await rm(this.#blobPath(version), { force: true });
        await rm(this.#stagingPath(version), { force: true });
      } catch (error) {
        failures.set(version, error instanceof Error ? error : new Error(String(error)));
      }
    }
    return failures;
  }

  async removeStaged(version: string): Promise<void> {
    await rm(this.#stagingPath(version), { force: true });
  }

  async *list(): AsyncIterable<ListedBlob> {
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
    const file = await open(path, parts.length === 0 ? 'w' : 'r+', FILE_MODE).catch((error: unknown) => {
      throw isMissing(error) ? new BlobMissing(version) : error;
    });
    try {
      // Bytes of an earlier attempt that was never recorded.
      await file.truncate(offset);
      const bytes = await writeAll(file, source, offset);
      await file.datasync();
      if (parts.length === 0) await syncDirectory(this.#staging);
      return { id: String(offset), bytes };
    } catch (error) {
      // Half a part is nothing to go on from, and takes the room that the client is told to make.
      if (isFull(error)) await file.truncate(offset).catch(() => {});
      throw error;
    } finally {
      await file.close();
    }
  }

  async assemble(version: string, parts: readonly StagedPart[]): Promise<void> {
    const path = this.#stagingPath(version);
    const done = await exists(this.#blobPath(version));
    if (done) return;
    const file = await open(path, parts.length === 0 ? 'a' : 'r+', FILE_MODE).catch((error: unknown) => {
      throw isMissing(error) ? new BlobMissing(version) : error;
    });
    try {
      // Exactly what was recorded, whatever a request that failed later left behind it.
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
    const file = await open(path, 'r').catch((error: unknown) => {
      throw isMissing(error) ? new BlobMissing(version) : error;
    });
    yield* file.createReadStream({ end: bytes - 1, highWaterMark: READ_CHUNK_BYTES });
  }

  close(): void {}

  /** From staging to its place. Both directories are synced: a rename is durable only with the entry it made. */
  async #publish(version: string, staged: string): Promise<void> {
    const path = this.#blobPath(version);
    await this.#ensureShard(version);
    try {
      await rename(staged, path);
    } catch (error) {
      if (!isMissing(error) || !(await exists(staged))) throw error;
      // Somebody tidied the empty shard away.
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

  /** All at once and synced once, so that no upload pays for a directory of its own. */
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

function assertVersion(version: string): void {
  if (!isVersion(version)) throw new BlobMissing('with a malformed version');
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
    written.forEach(releaseBytes);
  };
  for await (const chunk of source) {
    batch.push(chunk);
    batched += chunk.length;
    if (batched >= WRITE_BATCH_BYTES) await flush();
  }
  if (batched > 0) await flush();
  return position - offset;
}

/** What is left to write after a short write. */
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
    // Windows and some network file systems cannot sync a directory; their rename is durable by itself.
    if (!hasCode(error, 'EPERM', 'EINVAL', 'EISDIR', 'ENOTSUP')) throw error;
  } finally {
    await directory.close();
  }
}

async function* filesBelow(directory: string, depth: number): AsyncIterable<string> {
  const entries = await opendir(directory).catch((error: unknown) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
  if (!entries) return;
  for await (const entry of entries) {
    const path = join(directory, entry.name);
    if (entry.isDirectory() && depth > 0) yield* filesBelow(path, depth - 1);
    else if (entry.isFile()) yield path;
  }
}

async function* listed(path: string, staged: boolean): AsyncIterable<ListedBlob> {
  const version = path.slice(dirname(path).length + 1);
  if (!isVersion(version)) return;
  const found = await stat(path).catch((error: unknown) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
  if (found) yield { version, modifiedAt: found.mtime, staged };
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    (error: unknown) => {
      if (isMissing(error)) return false;
      throw error;
    },
  );
}

function totalBytes(parts: readonly StagedPart[]): number {
  return parts.reduce((sum, part) => sum + part.bytes, 0);
}

async function* once(bytes: Buffer): AsyncIterable<Buffer> {
  yield bytes;
}

function isMissing(error: unknown): boolean {
  return hasCode(error, 'ENOENT');
}

function isFull(error: unknown): boolean {
  return hasCode(error, 'ENOSPC', 'EDQUOT', 'EFBIG');
}
