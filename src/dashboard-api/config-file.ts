// svc.yaml on disk: read together with a version (a hash of its bytes), and replaced as a whole if it still has the
// version that the change was made against.
import { createHash, randomBytes } from 'node:crypto';
import { constants, readFileSync, renameSync } from 'node:fs';
import { access, open, readFile, realpath, stat, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

import { codeOf } from '../lib/error-code.ts';
import { decodeSource, type Source } from '../config/read/source.ts';
import { Problem } from '../problem/problem.ts';
import { fileChanged } from './problem.ts';

export type ReadFile = { readonly source: Source; readonly version: string };

/** Undefined for a remote file, which cannot be written. */
export function pathOf({ name, directory }: Source): string | undefined {
  return directory === undefined ? undefined : join(directory, basename(name));
}

/** The current file; a remote one as it was last loaded. */
export async function readConfigFile(source: Source): Promise<ReadFile> {
  const path = pathOf(source);
  if (path === undefined) return { source, version: versionOf(Buffer.from(source.text)) };
  const bytes = await readBytes(path, source.name);
  return { source: { ...source, text: decodeSource(source.name, bytes) }, version: versionOf(bytes) };
}

export async function isWritable(source: Source): Promise<boolean> {
  const path = pathOf(source);
  if (path === undefined) return false;
  try {
    const target = await realpath(path);
    await access(target, constants.W_OK);
    await access(dirname(target), constants.W_OK);
    return true;
  } catch {
    // Whatever the reason, it cannot be written.
    return false;
  }
}

/** Atomic: a reader or a crash sees the old file or the new one. Returns the new version. */
export async function replaceConfigFile(source: Source, text: string, version: string): Promise<string> {
  const path = pathOf(source);
  if (path === undefined) throw notEditable(source.name);
  const bytes = Buffer.from(text);
  try {
    // A symbolic link stays one: its target is replaced.
    const target = await realpath(path);
    const { mode } = await stat(target);
    const draft = join(dirname(target), `.${basename(target)}.${randomBytes(6).toString('hex')}.tmp`);
    try {
      const handle = await open(draft, 'wx', 0o600);
      try {
        await handle.writeFile(bytes);
        await handle.chmod(mode & 0o7777);
        await handle.sync();
      } finally {
        await handle.close();
      }
      // Nothing is awaited between check and rename, so no other save of this process can come in between.
      if (versionOf(readFileSync(target)) !== version) throw fileChanged(source.name);
      renameSync(draft, target);
    } catch (error) {
      await unlink(draft).catch(() => {
        // It was not created, or is renamed already.
      });
      throw error;
    }
    return versionOf(bytes);
  } catch (cause) {
    if (cause instanceof Problem) throw cause;
    throw new Problem('file_not_writable', 409, `${source.name} cannot be written`, {
      cause,
      details: codeOf(cause),
      hint: 'The service must be able to write to the folder of the file. In a container, mount the folder instead of the file.',
    });
  }
}

async function readBytes(path: string, name: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (cause) {
    throw new Problem('file_unreadable', 409, `${name} cannot be read`, {
      cause,
      details: codeOf(cause),
      hint: 'Check whether it was moved or deleted while the service was running.',
    });
  }
}

function versionOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

export function notEditable(name: string): Problem<'not_editable'> {
  return new Problem('not_editable', 409, `${name} cannot be changed here`, {
    hint: 'It is not a local file. Change it at its source.',
  });
}
