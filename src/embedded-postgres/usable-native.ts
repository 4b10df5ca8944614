// Provides binaries that the database's user can execute: those in node_modules, or a copy if that user cannot reach
// them (root's private folders) or if library links are missing and node_modules is read-only.
import { createHash, randomBytes } from 'node:crypto';
import { chmod, lstat, mkdir, readdir, readFile, realpath, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { canReach, isRoot, type Account } from './account.ts';
import { hasCode, ifExists } from '../lib/error-code.ts';
import {
  binary,
  copyNative,
  createMissingLinks,
  missingLinks,
  type NativePackage,
} from './native-package.ts';
import { unreachableDirectory } from './problem.ts';

const ABANDONED_AFTER_MS = 3_600_000;

export async function usableNative(
  native: NativePackage,
  account: Account | undefined,
  dir: string,
  // Root copies for another user: to a folder that everyone can read and only root can write.
  bases: readonly string[] = isRoot() ? ['/var/cache/svc', join(tmpdir(), 'svc-postgres')] : [dir],
): Promise<NativePackage> {
  const reachable = account === undefined || (await canReach(account, binary(native, 'postgres')));
  if (reachable && (await ensureLinks(native))) return native;
  for (const base of bases) {
    const copy = await copyInto(base, native, account);
    if (copy !== undefined) return copy;
  }
  throw unreachableDirectory(native.root, account?.uid ?? process.getuid?.() ?? -1);
}

async function ensureLinks(native: NativePackage): Promise<boolean> {
  if ((await missingLinks(native)).length === 0) return true;
  try {
    await createMissingLinks(native);
    return true;
  } catch (error) {
    if (hasCode(error, 'EACCES', 'EPERM', 'EROFS')) return false;
    throw error;
  }
}

async function copyInto(
  base: string,
  native: NativePackage,
  account: Account | undefined,
): Promise<NativePackage | undefined> {
  try {
    await mkdir(base, { recursive: true, mode: 0o755 });
  } catch (error) {
    if (hasCode(error, 'EACCES', 'EPERM', 'EROFS', 'EEXIST', 'ENOTDIR', 'ENOSPC')) return undefined;
    throw error;
  }
  if (!(await isOnlyOurs(base)) || (account && !(await canReach(account, base)))) return undefined;

  const name = `postgres-${native.packageVersion}-${await fingerprint(native)}`;
  const root = join(base, name);
  // Only we can write here, so an existing folder is complete: the rename below put it in place.
  if ((await ifExists(lstat(root)))?.isDirectory()) return { ...native, root };

  await removeAbandoned(base);
  const draft = join(base, `.${name}.${randomBytes(6).toString('hex')}`);
  await mkdir(draft, { mode: 0o755 });
  try {
    await copyNative(native, draft);
    if (account) await makeReadable(draft);
    await rename(draft, root);
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    // Another starter was faster; use its copy.
    if (!hasCode(error, 'ENOTEMPTY', 'EEXIST')) throw error;
  }
  return { ...native, root };
}

/**
 * Is it impossible for other users to add, move or replace anything here? The folder and all folders above it must be
 * owned by us or root, not links, and not writable by others. A writable parent such as /tmp is fine if it is sticky,
 * which keeps others from renaming our folder.
 */
async function isOnlyOurs(base: string): Promise<boolean> {
  const us = process.getuid?.() ?? 0;
  if ((await realpath(base)) !== resolve(base)) return false;
  for (let at = resolve(base); ; at = dirname(at)) {
    const { uid, mode } = await lstat(at);
    const sticky = (mode & 0o1000) !== 0;
    if (uid !== us && uid !== 0) return false;
    if ((mode & 0o022) !== 0 && (at === base || !sticky)) return false;
    if (dirname(at) === at) return true;
  }
}

/** Identifies the binaries: hash of the server's bytes and the libraries' sizes. */
async function fingerprint(native: NativePackage): Promise<string> {
  const hash = createHash('sha256');
  hash.update(await readFile(binary(native, 'postgres')));
  const lib = join(native.root, 'lib');
  for (const name of (await readdir(lib)).sort()) {
    const found = await lstat(join(lib, name));
    if (found.isFile()) hash.update(`${name} ${found.size}\n`);
  }
  return hash.digest('hex').slice(0, 16);
}

async function makeReadable(folder: string): Promise<void> {
  await chmod(folder, 0o755);
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    if (entry.isSymbolicLink()) continue;
    const path = join(entry.parentPath, entry.name);
    // Folders have the execute bit too.
    await chmod(path, ((await lstat(path)).mode & 0o111) === 0 ? 0o644 : 0o755);
  }
}

async function removeAbandoned(base: string): Promise<void> {
  for (const name of await readdir(base)) {
    if (!name.startsWith('.postgres-')) continue;
    const path = join(base, name);
    const age = Date.now() - (await lstat(path)).mtimeMs;
    if (age > ABANDONED_AFTER_MS) await rm(path, { recursive: true, force: true });
  }
}
