// Backups in a folder of this machine, readable by its owner only.
import { randomBytes } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, opendir, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import type { Readable } from 'node:stream';
import { once } from 'node:events';
import { pipeline } from 'node:stream/promises';
import { hasCode, ifExists } from '../../lib/error-code.ts';
import { FileMissing, type KeptFile, type Target, targetFull } from './target.ts';

export class FolderTarget implements Target {
  readonly name: string;

  constructor(folder: string) {
    this.name = folder;
  }

  async write(path: string, source: AsyncIterable<Uint8Array>): Promise<void> {
    const place = join(this.name, path);
    await mkdir(dirname(place), { recursive: true, mode: 0o700 });
    const staged = `${place}.${randomBytes(4).toString('hex')}`;
    try {
      await pipeline(source, createWriteStream(staged, { mode: 0o600, flush: true }));
      await rename(staged, place);
    } catch (error) {
      await rm(staged, { force: true });
      if (!hasCode(error, 'ENOSPC', 'EDQUOT')) throw error;
      throw targetFull(this.name, error);
    }
  }

  async read(path: string): Promise<Readable> {
    const stream = createReadStream(join(this.name, path));
    try {
      await once(stream, 'open');
    } catch (error) {
      throw hasCode(error, 'ENOENT') ? new FileMissing(path) : error;
    }
    return stream;
  }

  async readSize(path: string): Promise<number | undefined> {
    return (await ifExists(stat(join(this.name, path))))?.size;
  }

  async remove(path: string): Promise<void> {
    await rm(join(this.name, path), { force: true });
  }

  async removeFolder(folder: string): Promise<void> {
    await rm(join(this.name, folder), { recursive: true, force: true });
  }

  async folders(): Promise<string[]> {
    const entries = (await ifExists(readdir(this.name, { withFileTypes: true }))) ?? [];
    return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  }

  async *list(folder: string): AsyncIterable<KeptFile> {
    const found = await ifExists(opendir(join(this.name, folder), { recursive: true }));
    if (found === undefined) return;
    for await (const entry of found) {
      if (!entry.isFile()) continue;
      const place = join(entry.parentPath, entry.name);
      const stats = await ifExists(stat(place));
      if (stats === undefined) continue;
      const path = relative(this.name, place).replaceAll(sep, '/');
      yield { path, bytes: stats.size, modifiedAt: stats.mtime };
    }
  }

  close(): void {}
}
