// Identifies a storage directory by a file with an id, created at its first use. The path is not sufficient: on
// another machine, or after a failed mount, the same path is another directory.
import { randomUUID } from 'node:crypto';
import { link, mkdir, open, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { hasCode } from '../../lib/error-code.ts';
import { Problem } from '../../problem/problem.ts';

export const MARK_FILE = '.svc-store';
const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;

export class StoreMark {
  readonly directory: string;
  readonly #file: string;
  #trusted: string | undefined;

  constructor(directory: string) {
    this.directory = directory;
    this.#file = join(directory, MARK_FILE);
  }

  /** The id of the store; undefined without a mark or a directory. Throws when the file cannot be read. */
  async read(): Promise<string | undefined> {
    const text = await readFile(this.#file, 'utf8').catch((error: unknown) => {
      if (hasCode(error, 'ENOENT', 'ENOTDIR')) return undefined;
      throw error;
    });
    if (text === undefined) return undefined;
    const id = idIn(text);
    if (id === undefined) throw new Error(`${this.#file} holds no mark; it should be {"id":"<uuid>"}`);
    return id;
  }

  /** Marks the directory, unless another instance has just done so; returns the id that it has then. */
  async create(id: string = randomUUID()): Promise<string> {
    await mkdir(this.directory, { recursive: true, mode: 0o750 });
    const text = `${JSON.stringify({ id, created: new Date().toISOString() })}\n`;
    const staged = `${this.#file}.${randomUUID()}`;
    await writeDurably(staged, text);
    try {
      // A link does not replace an existing file, unlike a rename: exactly one of several concurrent starts succeeds.
      await link(staged, this.#file);
    } catch (error) {
      // No hard links on this file system.
      if (hasCode(error, 'EPERM', 'ENOTSUP', 'ENOSYS'))
        await writeDurably(this.#file, text).catch(unlessThere);
      else unlessThere(error);
    } finally {
      await rm(staged, { force: true });
    }
    return (await this.read()) ?? id;
  }

  /** Makes `assertPresent` require this id. */
  trust(id: string): void {
    this.#trusted = id;
  }

  /** Throws `storage_gone` unless the directory still has the mark it was accepted with. */
  async assertPresent(): Promise<void> {
    if (this.#trusted === undefined) return;
    let id: string | undefined;
    let cause: unknown;
    try {
      id = await this.read();
    } catch (error) {
      cause = error;
    }
    if (id === this.#trusted) return;
    const seen = id === undefined ? 'has no mark now' : `has the mark ${id} now`;
    throw new Problem(
      'storage_gone',
      503,
      `The files are in a directory with the mark ${this.#trusted}; ${this.directory} ${seen}`,
      {
        hint: 'Was its disk unmounted? Mount it again: no restart is needed.',
        cause,
        headers: { 'retry-after': '5' },
      },
    );
  }
}

function idIn(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== 'object' || value === null || !('id' in value)) return undefined;
    return typeof value.id === 'string' && UUID.test(value.id) ? value.id : undefined;
  } catch {
    return undefined;
  }
}

/** Writes and syncs a new file. */
async function writeDurably(path: string, text: string): Promise<void> {
  const file = await open(path, 'wx', 0o640);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

function unlessThere(error: unknown): void {
  if (!hasCode(error, 'EEXIST')) throw error;
}
