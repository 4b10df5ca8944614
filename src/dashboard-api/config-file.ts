// Reads and replaces the local svc.yaml and the files that it includes. A version is a hash of their texts. Files are
// replaced only if they still have the version that the change was made against.
import { createHash, randomBytes } from 'node:crypto';
import { constants, readFileSync, renameSync } from 'node:fs';
import { access, open, readFile, realpath, stat, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

import { errorCode } from '../lib/error-code.ts';
import { textsOfParts, type Texts } from '../config/edit/edit-parts.ts';
import { decodeSource, type Source } from '../config/read/source.ts';
import { Problem } from '../problem/problem.ts';
import { fileChanged } from './problem.ts';

export type ReadFile = { readonly source: Source; readonly version: string };

/** Returns the path of a local file, or undefined for a remote file, which cannot be written. */
export function localPath({ name, directory }: Source): string | undefined {
  return directory === undefined ? undefined : join(directory, basename(name));
}

/** Returns the current file. For a remote file, returns the text that was loaded last. */
export async function readConfigFile(source: Source): Promise<ReadFile> {
  const path = localPath(source);
  if (path === undefined) return { source, version: contentVersion(Buffer.from(source.text)) };
  return withVersion(source, await readBytes(path, source.name));
}

/** `bytes`: content of svc.yaml itself, without included files. */
function withVersion({ name, directory, dataDirectory, mode }: Source, bytes: Uint8Array): ReadFile {
  const source: Source = { name, directory, dataDirectory, mode, text: decodeSource(name, bytes) };
  const texts = textsOfParts(source);
  if (texts.size === 1) return { source, version: contentVersion(bytes) };
  return { source, version: contentVersion(Buffer.from(JSON.stringify([...texts]))) };
}

export async function isWritable(source: Source): Promise<boolean> {
  const path = localPath(source);
  if (path === undefined) return false;
  try {
    const target = await realpath(path);
    await access(target, constants.W_OK);
    await access(dirname(target), constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * Replaces each file atomically: a reader or a crash sees either the old or the new content. Returns the new version.
 * `texts`: new content, keyed by path relative to the directory of svc.yaml. The empty path is svc.yaml itself.
 */
export async function replaceConfigFiles(source: Source, texts: Texts, version: string): Promise<string> {
  const path = localPath(source);
  if (path === undefined) throw notEditable(source.name);
  const drafts: Draft[] = [];
  try {
    for (const [part, text] of texts)
      drafts.push(await writeDraft(part === '' ? path : join(dirname(path), part), text));
    // There is no await between check and rename, so no other save of this process can run in between.
    if (withVersion(source, readFileSync(path)).version !== version) throw fileChanged(source.name);
    for (const { draft, target } of drafts) renameSync(draft, target);
    return withVersion(source, readFileSync(path)).version;
  } catch (cause) {
    if (cause instanceof Problem) throw cause;
    throw new Problem('file_not_writable', 409, `${source.name} cannot be written`, {
      cause,
      details: errorCode(cause),
      hint:
        'The service must be able to write to the folder of the file. ' +
        'In a container, mount the folder instead of the file.',
    });
  } finally {
    for (const { draft } of drafts) {
      await unlink(draft).catch(() => {
        // The file has already been renamed.
      });
    }
  }
}

type Draft = { readonly draft: string; readonly target: string };

async function writeDraft(path: string, text: string): Promise<Draft> {
  // Keep symbolic links: replace the file that they point to.
  const target = await realpath(path);
  const { mode } = await stat(target);
  const draft = join(dirname(target), `.${basename(target)}.${randomBytes(6).toString('hex')}.tmp`);
  const handle = await open(draft, 'wx', 0o600);
  try {
    await handle.writeFile(Buffer.from(text));
    await handle.chmod(mode & 0o7777);
    await handle.sync();
  } catch (error) {
    await unlink(draft);
    throw error;
  } finally {
    await handle.close();
  }
  return { draft, target };
}

async function readBytes(path: string, name: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (cause) {
    throw new Problem('file_unreadable', 409, `${name} cannot be read`, {
      cause,
      details: errorCode(cause),
      hint: 'Check whether it was moved or deleted while the service was running.',
    });
  }
}

function contentVersion(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

export function notEditable(name: string): Problem<'not_editable'> {
  return new Problem('not_editable', 409, `${name} cannot be changed here`, {
    hint: 'It is not a local file. Change it at its source.',
  });
}
